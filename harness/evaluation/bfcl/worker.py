"""Runs inside the sandbox, in bfcl-eval's own environment: gives the cases, executes calls, judges answers.

Standard library and bfcl-eval alone. One JSON request a line on standard input, one JSON answer a line on what standard
output was at the start; whatever the package or model text prints goes nowhere. Everything that executes model text
happens in a forked child with limits of its own, so that no case sees what another one left behind: instances of
the multi-turn classes live in module globals.
"""

# mypy: ignore-errors
import contextlib
import importlib
import inspect
import io
import json
import os
import resource
import select
import signal
import sys
import time
import types

EXECUTION_SECONDS = 10
LARGEST_ANSWER = 32 << 20
MODEL = "harness"
ALONE = "SANDBOX_ALONE" in os.environ


def _stub():
    """bfcl-eval imports every vendor's client for a table of which its checkers read one flag."""

    class Configurations(dict):
        def __missing__(self, name):
            return types.SimpleNamespace(underscore_to_dot=False, is_fc_model=False)

    module = types.ModuleType("bfcl_eval.constants.model_config")
    module.MODEL_CONFIG_MAPPING = Configurations()
    sys.modules[module.__name__] = module


_stub()

from bfcl_eval import utils  # noqa: E402
from bfcl_eval.constants.default_prompts import (  # noqa: E402
    DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING,
    MAXIMUM_STEP_LIMIT,
)
from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.constants.eval_config import POSSIBLE_ANSWER_PATH, PROMPT_PATH  # noqa: E402
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker, multi_turn_utils  # noqa: E402

_raw = {}
CLASSES = (
    "GorillaFileSystem",
    "MathAPI",
    "MessageAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "TravelAPI",
    "VehicleControlAPI",
)


def _lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _category(name):
    """id -> (entry, ground truth) of a category as its file has it."""
    if name not in _raw:
        entries = _lines(PROMPT_PATH / f"BFCL_v4_{name}.json")
        answers = _lines(POSSIBLE_ANSWER_PATH / f"BFCL_v4_{name}.json")
        if len(entries) != len(answers):
            raise ValueError(f"{name}: {len(entries)} questions, {len(answers)} answers")
        _raw[name] = {
            entry["id"]: (entry, answer["ground_truth"]) for entry, answer in zip(entries, answers, strict=True)
        }
    return _raw[name]


def _of(case):
    return _category(case.rsplit("_", 1)[0])[case]


def do_cases(request):
    """Questions of a category with the tools that the model sees; equal tools are sent once."""
    tools, known, cases = [], {}, []

    def number(function):
        text = json.dumps(function)
        if text not in known:
            known[text] = len(tools)
            tools.append(function)
        return known[text]

    for entry in utils.load_dataset_entry(request["category"]):
        turns = []
        held_back = entry.get("missed_function", {})
        for index, turn in enumerate(entry["question"]):
            if str(index) in held_back:
                text = DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING.format(functions=held_back[str(index)])
                turn = [{"role": "user", "content": text}]
            turns.append(turn)
        cases.append({"id": entry["id"], "turns": turns, "tools": [number(function) for function in entry["function"]]})
    return {"tools": tools, "cases": cases, "steps": MAXIMUM_STEP_LIMIT}


def do_truth(request):
    """Ground truth of a category, id -> as the file has it; the parameters of the functions: of each case, or of all
    multi-turn classes."""
    found = _category(request["category"])
    truth = {case: answer for case, (_, answer) in found.items()}
    if request["category"].startswith("multi_turn"):
        return {"truth": truth, "parameters": _signatures()}
    parameters = {
        case: {function["name"]: function["parameters"] for function in entry.get("function", [])}
        for case, (entry, _) in found.items()
    }
    return {"truth": truth, "parameters": parameters}


def do_execute(request):
    """Run all steps of a conversation in fresh instances -> results of the last step."""
    entry, _ = _of(request["id"])

    def run():
        results = []
        for calls in request["steps"]:
            results, _ = multi_turn_utils.execute_multi_turn_func_call(
                calls,
                entry["initial_config"],
                entry["involved_classes"],
                MODEL,
                entry["id"],
                long_context="long_context" in entry["id"],
            )
        return {"results": [str(result) for result in results]}

    return _forked(run)


def do_judge(request):
    case, decoded = request["id"], request["decoded"]
    entry, truth = _of(case)
    category = case.rsplit("_", 1)[0]
    if category.startswith("multi_turn"):
        if len(decoded) != len(truth):
            return {"valid": False, "error_type": "multi_turn:force_terminated"}

        def run():
            verdict = multi_turn_checker.multi_turn_checker(decoded, truth, entry, category, MODEL)
            return {"valid": verdict["valid"] is True, "error_type": str(verdict.get("error_type", ""))}

        return _forked(run)
    if not utils.is_function_calling_format_output(decoded):
        return {"valid": False, "error_type": "ast_decoder:decoder_wrong_output_format"}
    language = Language.JAVA if "javascript" not in category and "java" in category else Language.PYTHON
    language = Language.JAVASCRIPT if "javascript" in category else language
    try:
        verdict = ast_checker(entry["function"], decoded, truth, language, category, MODEL)
    except Exception as error:
        return {"valid": False, "error_type": f"checker:{type(error).__name__}"}
    return {"valid": verdict["valid"] is True, "error_type": str(verdict.get("error_type", ""))}


def _signatures():
    """method -> names of its parameters, in order."""
    found = {}
    for path in [CLASS_FILE_PATH_MAPPING[name] for name in CLASSES]:
        for _, kind in inspect.getmembers(importlib.import_module(path), inspect.isclass):
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    found[name] = list(inspect.signature(method).parameters)[1:]
    return found


def _import_classes():
    """Once, before the first fork: each child would import them anew."""
    for name in CLASSES:
        importlib.import_module(CLASS_FILE_PATH_MAPPING[name])


def _forked(run):
    """``run()`` in a child; what went wrong with it as ``error_type`` starting with ``sandbox:``."""
    _import_classes()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            os.close(reading)
            os.close(0)
            PROTOCOL.close()
            resource.setrlimit(resource.RLIMIT_CPU, (EXECUTION_SECONDS, EXECUTION_SECONDS))
            try:
                answer = run()
            except MemoryError:
                answer = {"valid": False, "results": [], "error_type": "sandbox:memory"}
            except AssertionError as error:
                answer = {"valid": False, "results": [], "error_type": f"checker:{error}"[:200]}
            except Exception as error:
                answer = {"valid": False, "results": [], "error_type": f"checker:{type(error).__name__}"}
            content = json.dumps(answer).encode()
            with os.fdopen(writing, "wb") as file:
                file.write(content)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    content, ended = _collect(reading, time.monotonic() + EXECUTION_SECONDS + 5)
    os.close(reading)
    _end(child)
    try:
        answer = json.loads(content)
        if isinstance(answer, dict):
            return answer
    except ValueError:
        pass
    return {"valid": False, "results": [], "error_type": "sandbox:ended" if ended else "sandbox:time"}


def _collect(reading, deadline):
    parts, size = [], 0
    while size < LARGEST_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return b"", False
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"", True


def _end(child):
    """The child and whatever it started. In a process namespace of its own, this process may end all others in it."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    if ALONE:
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
        while ALONE and os.waitpid(-1, 0)[0]:
            pass


ACTIONS = {"cases": do_cases, "truth": do_truth, "execute": do_execute, "judge": do_judge}
PROTOCOL = os.fdopen(os.dup(1), "w", encoding="utf-8")


def main():
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.stdout = io.StringIO()
    print_answer({"ready": MODEL})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = ACTIONS[request["do"]](request)
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"[:500]}
        print_answer(answer)


def print_answer(answer):
    PROTOCOL.write(json.dumps(answer) + "\n")
    PROTOCOL.flush()


if __name__ == "__main__":
    main()
