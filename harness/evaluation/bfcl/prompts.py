"""The ToolRL prompt for BFCL: the system frame of training, the tools, and the whole dialogue in one user turn.

The frame and the sentences behind each query are those ToolRL's models were trained and evaluated with (arXiv
2504.13958, Apache-2.0); a changed word is another benchmark. The hash of all of them is stored with each result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.evaluation.sampling import Message

_EXAMPLE = (
    '{"name": "Tool name", "parameters": {"Parameter name": "Parameter content", "... ...": "... ..."}}\n'
    '{"name": "... ...", "parameters": {"... ...": "... ...", "... ...": "... ..."}}'
)
_BEFORE_TOOLS = """\
You are a helpful multi-turn dialogue assistant capable of leveraging tool calls to solve user tasks and provide \
structured chat responses.

**Available Tools**
In your response, you can use the following tools:
"""
_AFTER_TOOLS = f"""

**Steps for Each Turn**
1. **Think:** Recall relevant context and analyze the current user goal.
2. **Decide on Tool Usage:** If a tool is needed, specify the tool and its parameters.
3. **Respond Appropriately:** If a response is needed, generate one while maintaining consistency across user queries.

**Output Format**
```plaintext
<think> Your thoughts and reasoning </think>
<tool_call>
{_EXAMPLE}
...
</tool_call>
<response> AI's final response </response>
```

**Important Notes**
1. You must always include the `<think>` field to outline your reasoning. Provide at least one of `<tool_call>` or \
`<response>`. Decide whether to use `<tool_call>` (possibly multiple times), `<response>`, or both.
2. You can invoke multiple tool calls simultaneously in the `<tool_call>` fields. Each tool call should be a JSON \
object with a "name" field and an "parameters" field containing a dictionary of parameters. If no parameters are \
needed, leave the "parameters" field an empty dictionary.
3. Refer to the previous dialogue records in the history, including the user's queries, previous `<tool_call>`, \
`<response>`, and any tool feedback noted as `<obs>` (if exists).
"""
HISTORY = "**Dialogue Records History**\n"
SINGLE_TURN = (
    "If there's no appropriate tools to apply or required parameters are missing, please directly inform me in your "
    "response without any tool call, or call the tool with the name as 'None'. Otherwise, you should use one or more "
    "necessary tool calls to complete the given task in this turn."
)
MULTI_TURN = (
    "Use the one or more necessary tool calls to complete the task. You could perform tool calls for multiple rounds "
    "so you can try and error. Please make a comprehensive plan about how to achieve the goal step by step, and begin "
    "to call the tool step by step. If no tools apply or required parameters are missing, please also directly state "
    "this in your response without tool calls."
)
AFTER_EXECUTION = (
    "If you think you have completed the current task, or the task cannot be finished, please respond directly without "
    "additional tool calls. If you encounter an error during tool execution or the task remains unfinished, retry with "
    "the one or more necessary tool calls according to your thought and plan until completion. Based on the tool "
    "execution feedback, reflect on if understanding or selectioin of tool is wrong, what tool calling step is "
    "missing, and how to achieve the task goal from now on."
)
PROMPTS = (
    "ToolRL "
    + hashlib.sha256(
        "\0".join([_BEFORE_TOOLS, _AFTER_TOOLS, HISTORY, SINGLE_TURN, MULTI_TURN, AFTER_EXECUTION]).encode()
    ).hexdigest()[:16]
)


def tool_list(functions: Sequence[Mapping[str, Any]]) -> str:
    """Numbered tools: name, description, and the properties of the parameters as JSON."""
    return "\n".join(
        f"{number}. Name: {function['name']}\nDescription: {function['description']}\n"
        f"Parameters: {json.dumps(function['parameters'].get('properties', {}))}"
        for number, function in enumerate(functions, start=1)
    )


def messages(
    functions: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, str]], *, multi_turn: bool
) -> tuple[Message, ...]:
    """(system, user). ``history``: user, assistant and tool messages; a tool message has the call under ``name``.
    System messages of the benchmark are left out, as ToolRL does."""
    suffix = MULTI_TURN if multi_turn else SINGLE_TURN
    text = HISTORY
    for index, message in enumerate(history):
        content = message["content"].strip()
        if message["role"] == "user":
            text += f"<user> {content}\n{suffix} </user>\n"
        elif message["role"] == "assistant":
            text += f"\n{content}\n"
        elif message["role"] == "tool":
            call = message["name"].strip()
            text += f"<obs> You have made the tool call {call}. Execution returns: {content} </obs>\n"
            if index == len(history) - 1:
                text += f"\n<user> {AFTER_EXECUTION} </user>\n"
    system = _BEFORE_TOOLS + tool_list(functions) + _AFTER_TOOLS
    return ({"role": "system", "content": system}, {"role": "user", "content": text.strip()})
