#!/usr/bin/env python3
"""Checks the quickstart's data: recipes/data/ftune-faq.jsonl and its held-out questions.

The claim that the quickstart makes (held-out questions are answered) is only worth something if the held-out
questions are new in their words, and only possible if their facts are taught. So this checks, for each line, the
OpenAI `messages` form; the numbers of conversations; that no question is asked twice; that no held-out question
shares more than 0.6 of its words (Jaccard) with a training question; and that each held-out answer is taught.

Exit code 0: everything holds. 1: something does not; every finding is printed.
"""

import argparse
import json
import pathlib
import re
import sys

MIN_TRAIN = 200
EVAL_COUNT = 20
MAX_QUESTION_OVERLAP = 0.6
MIN_ANSWER_OVERLAP = 0.8
ROLES = ["user", "assistant"]
DATA = pathlib.Path(__file__).resolve().parents[2] / "recipes" / "data"


def words(text):
    """The set of lower-cased words; punctuation around a word does not make it another word."""
    return set(re.findall(r"\w+(?:[-_./*=]+\w+)*", text.lower()))


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 1.0


def parse_line(line):
    """(question, answer) of one line; ValueError says what is wrong with it."""
    conversation = json.loads(line)
    if not isinstance(conversation, dict) or set(conversation) != {"messages"}:
        raise ValueError('expected an object with the one key "messages"')
    messages = conversation["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise ValueError('"messages" is not a list of objects')
    if [m.get("role") for m in messages] != ROLES:
        raise ValueError(f"expected the roles {ROLES}, found {[m.get('role') for m in messages]}")
    for message in messages:
        content = message.get("content")
        if set(message) != {"role", "content"} or not isinstance(content, str) or not words(content):
            raise ValueError('each message needs "role" and a "content" with at least a word, and nothing else')
    return messages[0]["content"], messages[1]["content"]


def read(path, findings):
    """[(where, question, answer)] of the lines that are in order; the others go to findings."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        findings.append(f"{path}: {error}")
        return []
    conversations = []
    for number, line in enumerate(lines, 1):
        where = f"{path.name}:{number}"
        try:
            conversations.append((where, *parse_line(line)))
        except ValueError as error:
            findings.append(f"{where}: {error}")
    return conversations


def check_duplicates(conversations, findings):
    first = {}
    for where, question, _ in conversations:
        key = " ".join(question.lower().split())
        if key in first:
            findings.append(f"{where}: the question is already asked at {first[key]}: {question!r}")
        first.setdefault(key, where)


def check_held_out(train, evaluation, findings):
    """Returns the largest overlap between a held-out question and a training question."""
    trained = [(where, words(question), words(answer)) for where, question, answer in train]
    largest = 0.0
    for where, question, answer in evaluation:
        asked, expected = words(question), words(answer)
        for other, trained_question, _ in trained:
            overlap = jaccard(asked, trained_question)
            largest = max(largest, overlap)
            if overlap > MAX_QUESTION_OVERLAP:
                findings.append(
                    f"{where}: shares {overlap:.2f} of its words with {other}, more than {MAX_QUESTION_OVERLAP}: {question!r}"
                )
        if not any(jaccard(expected, taught) >= MIN_ANSWER_OVERLAP for _, _, taught in trained):
            findings.append(f"{where}: no training answer teaches this one: {answer!r}")
    return largest


def main():
    parser = argparse.ArgumentParser(description="Checks the quickstart's questions and answers.")
    parser.add_argument("--train", type=pathlib.Path, default=DATA / "ftune-faq.jsonl")
    parser.add_argument("--eval", type=pathlib.Path, default=DATA / "ftune-faq-eval.jsonl")
    arguments = parser.parse_args()

    findings = []
    train = read(arguments.train, findings)
    evaluation = read(arguments.eval, findings)
    if len(train) < MIN_TRAIN:
        findings.append(f"{arguments.train}: {len(train)} conversations, expected {MIN_TRAIN} or more")
    if len(evaluation) != EVAL_COUNT:
        findings.append(f"{arguments.eval}: {len(evaluation)} conversations, expected {EVAL_COUNT}")
    check_duplicates(train + evaluation, findings)
    largest = check_held_out(train, evaluation, findings)

    for finding in findings:
        print(finding, file=sys.stderr)
    facts = len({answer for _, _, answer in train})
    print(
        f"{len(train)} training conversations on {facts} facts, {len(evaluation)} held out, "
        f"largest overlap of a held-out question {largest:.2f}, {len(findings)} finding(s)"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
