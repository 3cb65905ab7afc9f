"""Data and stored outputs to evaluate: questions as `data fetch` would leave them, answers as a model would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.evaluation.bfcl.categories import CASES
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.driver import Case, Conversation, cases_of
from harness.evaluation.bfcl.prompts import PROMPTS
from harness.evaluation.bfcl.stages import SAMPLING
from harness.evaluation.bfcl.truth import Truth
from harness.evaluation.outputs import NAME, Writer
from harness.evaluation.sampling import Generation
from harness.evaluation.sandbox import Sandbox
from harness.tasks import schema
from harness.tasks.datasets import MATHS_BENCHMARKS
from harness.tasks.prompts import Example, maths_messages

QUESTIONS = 6


def make_data(root: Path, count: int = QUESTIONS) -> Path:
    """Question k of every benchmark has the answer k."""
    entries = {}
    for name in MATHS_BENCHMARKS:
        examples = [Example(maths_messages(f"{name}: what is {k}?"), str(k), k) for k in range(count)]
        path = root / name / "test.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema.write(path, name, "maths", "test", examples)
        entries[name] = {"origin": "made", "revision": None, "files": {}, "rows": {"test": count}, "converted": {}}
    (root / "lock.json").write_text(json.dumps({"schema": 1, "datasets": entries}))
    return root


def bfcl_truths(
    sandbox: Sandbox, limit: int | None = None, categories: Iterable[str] = CASES
) -> list[tuple[Case, Truth]]:
    """The cases of BFCL with their ground truth, from bfcl-eval's own data."""
    found = []
    with BfclWorker(sandbox) as worker:
        for category in categories:
            truth = worker.truth(category)
            found += [(case, truth[case.identifier]) for case in cases_of(worker.cases(category))[:limit]]
    return found


def store_bfcl_answers(
    out: Path, truths: Iterable[tuple[Case, Truth]], answer: Callable[[int, Truth], list[list[str]]]
) -> Path:
    """Write what a model would have answered, by turn and step, for ``evaluate benchmark=bfcl_v4 out=``."""
    path = out / "evals" / "bfcl_v4" / "0" / NAME
    path.unlink(missing_ok=True)
    head = {"benchmark": "bfcl_v4", "sampling": {"seed": SAMPLING.seed}, "prompts": PROMPTS}
    with Writer(path, head) as writer:
        for number, (case, truth) in enumerate(truths):
            talk = Conversation(case)
            for outputs in answer(number, truth):
                for text in outputs:
                    request = talk.request(SAMPLING.seed)
                    generation = Generation(request.key, text, len(text.split()) + 1, None, "stop")
                    writer.add(request, generation)
                    talk.advance(generation, lambda _, steps: [""] * len(steps[-1]))
            assert talk.finished
    return path
