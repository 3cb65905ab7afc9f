"""From a subject and a benchmark to stored outputs and a stored result: the two stages of each benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UserError, nearest
from harness.evaluation import maths, outputs, pocket
from harness.evaluation import subject as subjects
from harness.evaluation.benchmarks import BENCHMARKS, BFCL, MATHS, result_name
from harness.evaluation.generate import Progress, generate
from harness.evaluation.options import Options
from harness.evaluation.outputs import Content, Writer
from harness.evaluation.sampling import Backend, Request, Sampling
from harness.evaluation.subject import Subject
from harness.tasks.datasets import MATHS_BENCHMARKS
from harness.tasks.library import Library
from harness.tasks.places import data_root


def evaluate(options: Options, subject: Subject) -> list[Path]:
    """Run the stages asked for; the files of the results."""
    if options.benchmark not in BENCHMARKS:
        raise UserError(f"benchmark={options.benchmark} is unknown: {nearest(options.benchmark, BENCHMARKS)}")
    if options.benchmark == BFCL:
        from harness.evaluation.bfcl.stages import evaluate_bfcl

        return evaluate_bfcl(options, subject)
    if options.benchmark == pocket.BENCHMARK:
        return _pocket(options, subject)
    return _maths(options, subject)


def asked_sampling(options: Options, protocol: Sampling) -> Sampling:
    """The protocol's sampling with what the user gave instead."""
    names = ("temperature", "top_p", "max_new_tokens", "samples", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return replace(protocol, **given)


def folder(subject: Subject, benchmark: str) -> Path:
    """Where the outputs of a benchmark are: ``evals/<benchmark>/<step>/``."""
    return subject.evaluations.path(benchmark, subject.step).with_suffix("")


def header(benchmark: str, subject: Subject, backend: Backend, sampling: Sampling, prompts: str) -> dict[str, Any]:
    asked = {key: value for key, value in asdict(sampling).items() if key != "samples"}
    return {
        "benchmark": benchmark,
        **subjects.identity(subject, backend.describe()),
        "sampling": asked,
        "prompts": prompts,
    }


def run_generation(
    options: Options,
    subject: Subject,
    backend: Backend,
    benchmark: str,
    requests: Sequence[Request],
    sampling: Sampling,
    prompts: str,
) -> None:
    path = folder(subject, benchmark) / outputs.NAME
    with Writer(path, header(benchmark, subject, backend, sampling, prompts)) as writer:
        _report_damage(path, writer.content)
        done = sum(writer.content.answer(request) is not None for request in requests)
        generate(backend, requests, sampling, writer, Progress(benchmark, len(requests), done))


def stored(subject: Subject, benchmark: str) -> Content:
    """The stored outputs. UserError without any."""
    path = folder(subject, benchmark) / outputs.NAME
    content = outputs.read(path)
    if content.header is None:
        raise UserError(f"{path} holds no outputs to score; generate them first with stage=generate")
    _report_damage(path, content)
    return content


@dataclass(frozen=True)
class Source:
    """Where a result comes from: the header of stored outputs, what later headers say otherwise, and what is said of
    the outputs. The texts are not kept."""

    header: dict[str, Any]
    changes: list[dict[str, Any]]
    summary: dict[str, Any]

    @classmethod
    def of(cls, content: Content) -> Source:
        summary = {
            "damaged_lines": len(content.damaged),
            "torn_bytes": content.torn,
            "repeated": content.repeated,
            "superseded": content.superseded,
            "stored": len(content.outputs),
            "sha256": digest(content),
        }
        first = content.header or {}
        changes = [{key: row[key] for key in row if row[key] != first.get(key)} for row in content.later_headers]
        return cls(first, changes, summary)


def write_result(
    options: Options, subject: Subject, benchmark: str, results: dict[str, Any], table: Any, sources: Sequence[Source]
) -> Path:
    """Store a result with where its outputs come from; a part of a benchmark gets a name of its own."""
    first = sources[0].header
    provenance = {
        "model": subject.name,
        "generation": {key: value for key, value in first.items() if key not in ("kind", "schema", "benchmark")},
        "generation_changed": [change for source in sources for change in source.changes],
        "outputs": {str(source.header.get("benchmark")): source.summary for source in sources},
    }
    name = result_name(benchmark, options.limit)
    return subject.evaluations.write(name, subject.step, {**results, **provenance}, table)


def digest(content: Content) -> str:
    """Of all outputs, whatever their order in the file."""
    total = hashlib.sha256()
    for key in sorted(content.outputs):
        stored_output = content.outputs[key]
        total.update(f"{key}{stored_output.prompt_sha256}{stored_output.generation.tokens}".encode())
        total.update(stored_output.generation.text.encode("utf-8", "surrogatepass"))
    return total.hexdigest()[:16]


def _report_damage(path: Path, content: Content) -> None:
    if content.damaged or content.torn:
        lines = f"lines {', '.join(map(str, content.damaged[:5]))} are damaged" if content.damaged else ""
        torn = "the last line was not finished" if content.torn else ""
        what = " and ".join(part for part in (lines, torn) if part)
        print(f"{path}: {what}; those outputs count as not generated")


def _maths(options: Options, subject: Subject) -> list[Path]:
    library = Library(data_root(options.data_root))
    names = MATHS_BENCHMARKS if options.benchmark == MATHS else (options.benchmark,)
    sampling = asked_sampling(options, maths.SAMPLING)
    whole = {name: maths.questions(name, library) for name in names}
    questions = {name: found[: options.limit] for name, found in whole.items()}
    if options.stage != "score":
        backend = subjects.backend(options, subject, sampling.context)
        for name, asked in questions.items():
            requests = maths.requests(asked, sampling)
            run_generation(options, subject, backend, name, requests, sampling, maths.PROMPTS)
    if options.stage == "generate":
        return []
    paths, parts, sources = [], [], []
    for name, asked in questions.items():
        part, source = _scored(subject, name, asked, whole[name], sampling)
        result = maths.results([part], {name: len(asked)}, sampling)
        paths.append(write_result(options, subject, name, result, part.samples, [source]))
        parts.append(part)
        sources.append(source)
    if len(parts) > 1:
        import pandas as pd

        result = maths.results(parts, {name: len(asked) for name, asked in questions.items()}, sampling)
        table = pd.concat([part.samples for part in parts], ignore_index=True)
        paths.append(write_result(options, subject, MATHS, result, table, sources))
    return paths


def _scored(
    subject: Subject, name: str, asked: list[maths.Question], whole: list[maths.Question], sampling: Sampling
) -> tuple[maths.Scored, Source]:
    """Scores of the stored outputs of one benchmark, whose texts are not kept. The seed is theirs, whatever the command
    says."""
    content = stored(subject, name)
    seed = (content.header or {}).get("sampling", {}).get("seed", sampling.seed)
    return maths.score(name, asked, content, replace(sampling, seed=int(seed)), whole), Source.of(content)


def _pocket(options: Options, subject: Subject) -> list[Path]:
    if subject.config is None or subject.run is None:
        raise UserError("benchmark=pocket needs run=, a stored run of a generated task")
    from harness.pocket import pocket_task

    config = subject.config
    task = pocket_task(config)
    whole = pocket.prompts(task, config)
    asked = whole[: options.limit]
    sampling = asked_sampling(options, pocket.sampling(config))
    if options.stage != "score":
        backend = pocket.backend(task, subject.run, subject.step, block=len(asked))
        requests = pocket.requests(asked, sampling.seed)
        run_generation(options, subject, backend, pocket.BENCHMARK, requests, sampling, pocket.PROMPTS)
    if options.stage == "generate":
        return []
    content = stored(subject, pocket.BENCHMARK)
    results, table = pocket.score(task, config, asked, content)
    results["stale"] = outputs.stale(
        content, {request.key[0]: request.prompt_sha256 for request in pocket.requests(whole, config.seed)}
    )
    return [write_result(options, subject, pocket.BENCHMARK, results, table, [Source.of(content)])]
