"""``benchmark=bfcl_v4``: generate conversations in rounds, then judge them in a fresh sandboxed process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import UserError, nearest
from harness.evaluation import outputs, pipeline
from harness.evaluation import subject as subjects
from harness.evaluation.bfcl import environment
from harness.evaluation.bfcl.categories import CASES
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.driver import Case, Conversation, cases_of
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
    sandbox = Sandbox(options.sandbox)
    sampling = pipeline.asked_sampling(options, SAMPLING)
    with BfclWorker(sandbox) as worker:
        cases = [case for name in wanted for case in cases_of(worker.cases(name), options.limit)]
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
    conversations = replay(cases, content, seed)
    table, restarts = judge(conversations, sandbox)
    result = results(table, conversations, whole=options.limit is None and len(wanted) == len(CASES))
    result |= {
        "bfcl_eval": environment.VERSION,
        "sandbox": sandbox.mode,
        "worker_restarts": restarts,
        "categories": list(wanted),
    }
    return [pipeline.write_result(options, subject, BENCHMARK, result, table, [content])]


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


def replay(cases: Sequence[Case], content: Content, seed: int) -> list[Conversation]:
    """The conversations that the stored outputs make; one that lacks an output is ``missing``.

    Nothing is executed: what the model said decides where a conversation ends. The first prompt must be the stored one.
    """
    conversations = [Conversation(case) for case in cases]
    for conversation in conversations:
        answer = content.answer(conversation.request(seed))
        while answer is not None:
            conversation.advance(answer, lambda _, steps: [""] * len(steps[-1]))
            if conversation.finished:
                break
            stored = content.outputs.get(conversation.request(seed).key)
            answer = None if stored is None else stored.generation
        conversation.missing = answer is None
    return conversations


def _categories(text: str | None) -> list[str]:
    if text is None:
        return list(CASES)
    names = [name.strip() for name in text.strip("[]").split(",") if name.strip()]
    for name in names:
        if name not in CASES:
            raise UserError(f"categories={name} is unknown: {nearest(name, CASES)}")
    return [name for name in CASES if name in names]


__all__ = ["BENCHMARK", "converse", "evaluate_bfcl", "replay"]
