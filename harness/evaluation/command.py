"""Evaluate a checkpoint, a model or an endpoint: generate (stored, resumable), then score (repeatable, no GPU).

  python -m harness evaluate benchmark=pocket   run=RUN [step=50 | step=[0,50,100]]
  python -m harness evaluate benchmark=maths    run=RUN|model=NAME|endpoint=URL [limit=20] [samples=4]
  python -m harness evaluate benchmark=bfcl_v4  model=FOLDER backend=vllm [categories=simple_java,multi_turn_base]

benchmark: maths (all five), math500, aime_2024, amc_2022_2023, minerva, olympiadbench, bfcl_v4, pocket
model:     hub name, folder or .gguf file; backend=transformers (device=, dtype=, batch=) or backend=vllm
endpoint:  an OpenAI-compatible server; concurrency=, tries=, timeout=, extra={JSON}; the key is in OPENAI_API_KEY
stage:     all, generate or score. The same command goes on where an earlier one stopped.
others:    limit (questions of each benchmark or category), samples, seed, temperature, top_p, max_new_tokens, out,
           runs, data.root, sandbox=auto|namespaces|bubblewrap|off
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from harness.evaluation.options import parse
from harness.evaluation.stages import evaluate
from harness.evaluation.subject import subjects

GROUPS = ("/live", "/non_live", "/multi_turn", "/average")
"""Endings of the metrics that are printed; all are in the file."""


def _remarks(content: Mapping[str, Any]) -> str:
    """What a reader must know about the outputs, in one line: what is missing, stale or damaged."""
    found = content["outputs"].values()
    counts = {
        "missing": content["missing"],
        "stale (their question is gone or changed)": content["stale"],
        "asked again (their question had changed)": sum(item["superseded"] for item in found),
        "damaged": sum(item["damaged_lines"] for item in found),
        "stored twice": sum(item["repeated"] for item in found),
    }
    texts = [f"{count} {name}" for name, count in counts.items() if count]
    return f"; outputs: {', '.join(texts)}" if texts else ""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="KEY=VALUE")


def main(args: argparse.Namespace) -> int:
    """0: everything asked for was generated and scored; 1: something is missing in a result."""
    options = parse(args.words)
    complete = True
    for subject in subjects(options):
        for path in evaluate(options, subject):
            content = json.loads(path.read_bytes())
            complete = complete and bool(content["complete"])
            print(f"{path}: n {content['n']}{_remarks(content)}")
            for name, value in content["metrics"].items():
                if "/" not in name or name.startswith("reward/") or name.endswith(GROUPS):
                    print(f"  {name:<36} {'missing' if value is None else format(value, '.4f')}")
    return 0 if complete else 1
