"""Time of scoring, and throughput against a local endpoint. Prints figures and targets, asserts nothing.

python benchmarks/evaluation.py bfcl       all 3,301 ground truths and, after a broken half, once more
python benchmarks/evaluation.py maths      24,944 stored generations, with the peak memory
python benchmarks/evaluation.py endpoint   1,000 short prompts against a server in another process
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "evaluation"))


def bfcl() -> None:
    """The stored answers of a model, scored by the command as a user gives it, start-up included."""
    import subprocess

    from evaluation_data import bfcl_truths, store_bfcl_answers

    from harness.evaluation.sandbox import Sandbox

    truths = bfcl_truths(Sandbox())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "harness", "evaluate", "benchmark=bfcl_v4", "model=truth", "stage=score"]
        for title, broken in (("perfect", False), ("every second broken", True), ("perfect after it", False)):

            def answer(number: int, truth: Any, broken: bool = broken) -> list[list[str]]:
                answers: list[list[str]] = truth.answers()
                return [["<response> no"] for _ in answers] if broken and number % 2 else answers

            store_bfcl_answers(folder, truths, answer)
            started, used = time.perf_counter(), _processor()
            subprocess.run([*command, f"out={folder}"], check=True, stdout=subprocess.DEVNULL)
            seconds, used = time.perf_counter() - started, _processor() - used
            result = json.loads((folder / "evals/bfcl_v4/0.json").read_bytes())
            print(
                f"{title}: {result['n']} cases in {seconds:.1f} s, {used:.1f} s of processor (target 60 s)", flush=True
            )
            cells = [f"{name} {cell['correct']}/{cell['cases']}" for name, cell in result["cells"].items()]
            print("  " + ", ".join(cells))
            wanted = ("accuracy/live", "accuracy/non_live", "accuracy/multi_turn", "accuracy/average", "format/average")
            print("  " + ", ".join(f"{name} {result['metrics'][name]:.4f}" for name in wanted), flush=True)


def _processor() -> float:
    """Processor seconds of this process and of all its children that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def maths() -> None:
    from evaluation_data import make_data

    from harness.evaluation.maths import SAMPLING
    from harness.evaluation.options import parse
    from harness.evaluation.outputs import Writer
    from harness.evaluation.sampling import Generation
    from harness.evaluation.stages import evaluate
    from harness.evaluation.subject import subjects

    count = 312  # 5 benchmarks x 312 questions x 16 samples = 24,960
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder / "data", count)
        words = ["model=x", f"out={folder}/o", f"data.root={folder}/data", "stage=score", "benchmark=maths"]
        options = parse(words)
        (subject,) = subjects(options)
        _fill(subject, folder, SAMPLING, Writer, Generation)
        started, processor = time.perf_counter(), time.process_time()
        evaluate(options, subject)
        seconds, used = time.perf_counter() - started, time.process_time() - processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{5 * count * 16} maths generations: {seconds:.1f} s, {used:.1f} s of processor (target 60 s)")
        print(f"peak memory {peak:.2f} GiB (target 2 GiB)")


def _fill(subject, folder, sampling, writer_class, generation_class) -> None:  # type: ignore[no-untyped-def]
    from harness.evaluation import maths, outputs, pipeline
    from harness.tasks.datasets import MATHS_BENCHMARKS
    from harness.tasks.library import Library

    filler = "so we get x plus y equals z and then " * 800
    for benchmark in MATHS_BENCHMARKS:
        asked = maths.questions(benchmark, Library(folder / "data"))
        path = pipeline.folder(subject, benchmark) / outputs.NAME
        with writer_class(path, {"benchmark": benchmark, "sampling": {"seed": sampling.seed}}) as writer:
            for index, request in enumerate(maths.requests(asked, sampling)):
                answer = f"{filler}\\boxed{{{index // 16 if index % 3 else 7}}}"
                writer.add(request, generation_class(request.key, answer, 3000 + index % 2000, 100, "stop"))


def endpoint() -> None:
    import multiprocessing

    from harness.evaluation.backends.endpoint import EndpointBackend
    from harness.evaluation.sampling import Request, Sampling

    count, concurrency = 1000, 64
    queue = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(queue,), daemon=True)
    process.start()
    url = queue.get()
    sampling = Sampling(0.6, 0.95, 16, None, 1, 0)
    requests = [
        Request((f"q{index}", 0, 0, 0), ({"role": "user", "content": f"what is {index}?"},), index)
        for index in range(count)
    ]
    backend = EndpointBackend(url, None, concurrency=concurrency)
    rates: dict[str, list[float]] = {"own": [], "harness": []}
    for _ in range(3):
        rates["own"].append(_rate(lambda: _raw_load(url, requests, backend, sampling, concurrency), count))
        rates["harness"].append(_rate(lambda: backend.generate(requests, sampling, lambda _: None), count))
    own, ours = max(rates["own"]), max(rates["harness"])
    print(f"1,000 prompts, {concurrency} at a time: endpoint alone {own:.0f}/s, evaluation {ours:.0f}/s")
    print(f"share {ours / own:.2f} (target 0.90)")
    process.terminate()


def _rate(action: Callable[[], object], count: int) -> float:
    started = time.perf_counter()
    action()
    return count / (time.perf_counter() - started)


def _raw_load(url, requests, backend, sampling, concurrency) -> None:  # type: ignore[no-untyped-def]
    """The same bodies by bare connections that read and forget the answers."""
    import http.client
    from urllib.parse import urlsplit

    bodies = [json.dumps(backend._body(request, sampling)).encode() for request in requests]
    place, guard = urlsplit(url).netloc, threading.Lock()

    def work() -> None:
        connection = http.client.HTTPConnection(place)
        while True:
            with guard:
                if not bodies:
                    return
                body = bodies.pop()
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            connection.getresponse().read()

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(queue) -> None:  # type: ignore[no-untyped-def]
    """A server with a fixed capacity: 16 answers at a time, 50 ms each, as an engine with a full batch."""
    from evaluation_server import server

    slots = threading.Semaphore(16)

    def answer(_number: int, _body: object) -> str:
        with slots:
            time.sleep(0.05)
        return "42"

    with server(answer) as (url, _):
        queue.put(url)
        threading.Event().wait()


if __name__ == "__main__":
    chosen = {"bfcl": bfcl, "maths": maths, "endpoint": endpoint}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="|".join(chosen), help="default: all")
    names = parser.parse_args().what or list(chosen)
    if unknown := [name for name in names if name not in chosen]:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(chosen)}")
    for name in names:
        chosen[name]()
