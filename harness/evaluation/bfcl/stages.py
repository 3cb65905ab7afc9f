"""``benchmark=bfcl_v4``: generate conversations in rounds, then judge them in a fresh sandboxed process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UserError, nearest
from harness.evaluation import outputs, pipeline
from harness.evaluation import subject as subjects
from harness.evaluation.bfcl import environment
from harness.evaluation.bfcl.categories import CASES, category_of
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.driver import Case, Conversation, Execute, cases_of
from harness.evaluation.bfcl.prompts import PROMPTS
from harness.evaluation.bfcl.scores import judge, results
from harness.evaluation.generate import Progress, generate
from harness.evaluation.options import Options
from harness.evaluation.outputs import Content, Writer
from harness.evaluation.sampling import Backend, Sampling
from harness.evaluation.sandbox import Sandbox
from harness.evaluation.subject import Subject

BENCHMARK = "bfcl_v4"
SAMPLING = Sampling(temperature=0.6, top_p=0.95, max_new_tokens=8192, context=32768, samples=1, seed=0)


def evaluate_bfcl(options: Options, subject: Subject) -> list[Path]:
    """Run the stages asked for; the file of the result."""
    wanted = _categories(options.categories)
    if options.samples not in (None, 1):
        raise UserError(f"samples={options.samples}: each BFCL case is answered once; leave samples= out")
    sandbox = Sandbox.of(options.sandbox)
    sampling = pipeline.asked_sampling(options, SAMPLING)
    with BfclWorker(sandbox) as worker:
        whole = {name: cases_of(worker.cases(name)) for name in wanted}
        cases = [case for found in whole.values() for case in found[: options.limit]]
        if options.stage != "score":
            backend = subjects.backend(options, subject, sampling.context)
            path = pipeline.folder(subject, BENCHMARK) / outputs.NAME
            head = pipeline.header(BENCHMARK, subject, backend, sampling, PROMPTS)
            with Writer(path, head) as writer:
                converse(cases, backend, sampling, writer, worker)
        if options.stage == "generate":
            return []
        content = pipeline.stored(subject, BENCHMARK)
        seed = int((content.header or {}).get("sampling", {}).get("seed", sampling.seed))
        conversations = replay(cases, content, seed, worker.execute)
    table, restarts = judge(conversations, sandbox)
    result = results(table, conversations, whole=options.limit is None and len(wanted) == len(CASES))
    result["stale"] = _stale(content, whole, seed)
    result |= {
        "bfcl_eval": environment.VERSION,
        "sandbox": sandbox.mode,
        "worker_restarts": restarts,
        "categories": list(wanted),
    }
    return [pipeline.write_result(options, subject, BENCHMARK, result, table, [pipeline.Source.of(content)])]


def converse(
    cases: Sequence[Case], backend: Backend, sampling: Sampling, writer: Writer, worker: BfclWorker
) -> list[Conversation]:
    """Bring all conversations to their end; outputs that are stored already are taken from ``writer``."""
    conversations = [Conversation(case) for case in cases]
    running, number = conversations, 0
    while running:
        number += 1
        requests = [conversation.request(sampling.seed) for conversation in running]
        done = sum(writer.content.answer(request) is not None for request in requests)
        generate(backend, requests, sampling, writer, Progress(f"round {number}", len(requests), done))
        for conversation, request in zip(running, requests, strict=True):
            answer = writer.content.answer(request)
            assert answer is not None
            conversation.advance(answer, worker.execute)
        running = [conversation for conversation in running if not conversation.finished]
    return conversations


def replay(cases: Sequence[Case], content: Content, seed: int, execute: Execute) -> list[Conversation]:
    """The conversations that the stored outputs make; one that lacks an output is ``missing``.

    Hardly anything is executed: what the model said decides where a conversation ends, and outputs that were stored one
    after the other answer each other. The first prompt must be the stored one. Where outputs are not in order (a prompt
    was asked again in other words, or a damaged line) the calls are executed and every prompt is compared.
    """
    conversations = []
    for case in cases:
        conversation, in_order = _replayed(case, content, seed)
        conversations.append(conversation if in_order else _compared(case, content, seed, execute))
    return conversations


def _replayed(case: Case, content: Content, seed: int) -> tuple[Conversation, bool]:
    conversation = Conversation(case)
    first = conversation.request(seed)
    stored = content.outputs.get(first.key) if content.answer(first) else None
    line, in_order = 0, True
    while stored is not None:
        line, in_order = stored.line, in_order and stored.line > line
        conversation.advance(stored.generation, lambda _, steps: [""] * len(steps[-1]))
        if conversation.finished:
            return conversation, in_order
        stored = content.outputs.get(conversation.key)
    conversation.missing = True
    return conversation, in_order


def _compared(case: Case, content: Content, seed: int, execute: Execute) -> Conversation:
    conversation = Conversation(case)
    while not conversation.finished:
        answer = content.answer(conversation.request(seed))
        if answer is None:
            conversation.missing = True
            break
        conversation.advance(answer, execute)
    return conversation


def _stale(content: Content, whole: Mapping[str, Sequence[Case]], seed: int) -> int:
    """Stale outputs of the categories asked."""
    prompts = {
        case.identifier: Conversation(case).request(seed).prompt_sha256 for found in whole.values() for case in found
    }
    others = {key[0] for key in content.outputs if category_of(key[0]) not in whole}
    return outputs.stale(content, prompts, others)


def _categories(text: str | None) -> list[str]:
    if text is None:
        return list(CASES)
    names = [name.strip() for name in text.strip("[]").split(",") if name.strip()]
    for name in names:
        if name not in CASES:
            raise UserError(f"categories={name} is unknown: {nearest(name, CASES)}")
    return [name for name in CASES if name in names]


__all__ = ["BENCHMARK", "converse", "evaluate_bfcl", "replay"]
