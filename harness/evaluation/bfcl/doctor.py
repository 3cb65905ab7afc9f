"""``python -m harness doctor bfcl [sandbox=MODE]``: sets up bfcl-eval and checks that it judges as it should."""

from __future__ import annotations

from harness.errors import UserError, nearest
from harness.evaluation.bfcl import environment
from harness.evaluation.bfcl.categories import CASES
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.sandbox import AUTO, MODES, OFF, Sandbox
from harness.launch.findings import Finding

TRIED = ("simple_python", "simple_java", "simple_javascript", "live_parallel", "multi_turn_base")
TRIED_CASES = 3


def check(arguments: list[str]) -> list[Finding]:
    """Builds the environment if it is not there. Never raises for what it finds; UserError for a wrong argument."""
    mode = AUTO
    for word in arguments:
        key, _, value = word.partition("=")
        if key != "sandbox" or not value:
            raise UserError(f"doctor bfcl knows no {word!r}: {nearest(key, ['sandbox'])}")
        mode = value
    if mode not in MODES:
        raise UserError(f"doctor bfcl: sandbox={mode} is unknown: {nearest(mode, MODES)}")
    findings = []
    try:
        sandbox = Sandbox.of(mode)
        sandbox.require()
    except UserError as error:
        remedy = "see above, or give sandbox=off on a disposable machine"
        return [Finding("problem", "sandbox", str(error), remedy)]
    off = sandbox.mode == OFF
    text = "model text would run with your rights" if off else "no network, no foreign files"
    findings.append(Finding("note" if off else "ok", "sandbox", f"{sandbox.mode}: {text}"))
    try:
        folder = environment.build()
    except UserError as error:
        return [*findings, Finding("problem", "bfcl-eval", str(error), f"run `{environment.SETUP}` again")]
    findings.append(Finding("ok", "bfcl-eval", f"{environment.VERSION} in {folder}"))
    anew = f"delete {folder} and run `{environment.SETUP}` again: it is built anew"
    try:
        with BfclWorker(sandbox, folder) as worker:
            findings += [_count(worker, anew), _verdicts(worker, anew)]
    except UserError as error:
        findings.append(Finding("problem", "bfcl-eval", str(error), anew))
    return findings


def _count(worker: BfclWorker, remedy: str) -> Finding:
    wrong = [name for name, count in CASES.items() if len(worker.truth(name)) != count]
    if wrong:
        return Finding("problem", "data", f"other numbers of cases in {', '.join(wrong)}", remedy)
    return Finding("ok", "data", f"{sum(CASES.values()):,} cases in {len(CASES)} categories")


def _verdicts(worker: BfclWorker, remedy: str) -> Finding:
    """A few ground truths must be judged right, and the same without their last call wrong."""
    for category in TRIED:
        for case, truth in list(worker.truth(category).items())[:TRIED_CASES]:
            right = worker.judge(case, truth.decoded())
            wrong = worker.judge(case, [] if not category.startswith("multi_turn") else [[] for _ in truth.value])
            if not right[0] or wrong[0]:
                text = f"{case}: ground truth judged {right}, nothing judged {wrong}"
                return Finding("problem", "verdicts", text, remedy)
    return Finding("ok", "verdicts", f"{len(TRIED) * TRIED_CASES} ground truths and as many empty answers judged right")
