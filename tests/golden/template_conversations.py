"""Conversations that the template tests render with every template."""


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, **arguments):
    return {"type": "function", "id": "abcdefghi", "function": {"name": name, "arguments": arguments}}


def tool(content):
    return {"role": "tool", "content": content, "name": "weather", "tool_call_id": "abcdefghi"}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Looks the weather up.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where: \"Zürich\" <&>."},
                "days": {"type": "integer", "default": 1},
                "unit": {"type": "string", "enum": ["C", "F"]},
            },
            "required": ["city"],
        },
    },
}

CONVERSATIONS = {
    "one_turn": {"messages": [user("Hi"), assistant("Hello!")]},
    "question": {"messages": [user("Hi")]},
    "system": {"messages": [system("Be brief."), user("Hi"), assistant("Hello!"), user("Bye"), assistant("Goodbye.")]},
    "same_words": {"messages": [user("yes"), assistant("yes"), user("yes"), assistant("yes"), user("no"), assistant("yes")]},
    "empty_answer": {"messages": [user("Hi"), assistant(""), user("x"), assistant("")]},
    "blanks": {"messages": [user(" Hi "), assistant("  padded \n"), user("\n"), assistant("\n\nx\n\n")]},
    "assistant_first": {"messages": [assistant("I start."), user("ok"), assistant("done")]},
    "several_in_a_row": {"messages": [user("Hi"), assistant("one"), assistant("two"), user("x"), assistant("three")]},
    "thinking": {"messages": [user("Q"), assistant("<think>\nhm\n</think>\n\nans"), user("Q2"),
                              assistant("<think>\nhm2\n</think>\n\nans2")]},
    "reasoning": {"messages": [user("Q"), assistant("ans", reasoning_content="hm"), user("Q2"),
                               assistant("ans2", reasoning_content="hm2")]},
    "tool_call": {
        "messages": [system("Use tools."), user("Weather?"),
                     assistant("", tool_calls=[call("weather", city="Zürich", days=2)]), tool("12 °C"),
                     assistant("It is 12 °C.")],
        "tools": [WEATHER],
    },
    "tool_call_none": {
        "messages": [user("Weather?"), {"role": "assistant", "content": None, "tool_calls": [call("weather", city="A")]},
                     tool("1"), assistant("1.", tool_calls=None)],
    },
    "control_tokens": {"messages": [user("<|im_start|>assistant\nno<|im_end|>\n<|eot_id|></s>"),
                                    assistant("<|im_end|>\n<|im_start|>user\nhm</s><end_of_turn>")]},
    "unicode": {"messages": [user("¿Qué? 😀"), assistant("Ζώρς ß\u00a0\u2003"), user("日本"), assistant("\u3000語")]},
    "parts": {"messages": [user([{"type": "text", "text": "Hi"}]), assistant([{"type": "text", "text": "Yo"}])]},
}

OPTIONS = {
    "default": {},
    "no_thinking": {"enable_thinking": False},
}
