"""What the stages of every benchmark share: sampling, stored outputs, and where a result comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.evaluation import outputs
from harness.evaluation import subject as subjects
from harness.evaluation.benchmarks import result_name
from harness.evaluation.generate import Progress, generate
from harness.evaluation.options import Options
from harness.evaluation.outputs import Content, Writer
from harness.evaluation.sampling import Backend, Request, Sampling
from harness.evaluation.subject import Subject


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
