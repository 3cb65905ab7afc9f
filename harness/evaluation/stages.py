"""From a subject and a benchmark to stored outputs and a stored result: the two stages of each benchmark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.errors import UserError, nearest
from harness.evaluation import maths, outputs, pocket
from harness.evaluation import subject as subjects
from harness.evaluation.benchmarks import BENCHMARKS, BFCL, MATHS
from harness.evaluation.options import Options
from harness.evaluation.pipeline import Source, asked_sampling, run_generation, stored, write_result
from harness.evaluation.sampling import Sampling
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
