#!/usr/bin/env python3
"""Makes turns.tsv: for each model call of real sessions, what its messages count and what the provider reported.

    pip install tiktoken==0.14.0
    TIKTOKEN_CACHE_DIR=... python3 extract.py DATA CAPTURES > turns.tsv

DATA is a folder of transcripts laid out as `<format>/<file>`, CAPTURES one of recorded traffic (`<client>/<file>`). Only
numbers are written. Counted are texts, calls and results in o200k, four tokens a message, 1,600 a picture; neither the
instructions nor the tools, which transcripts do not hold. `-` marks a compaction, after which transcripts do not say what
was sent. Sources are public repositories under MIT or Apache-2.0 (see tests/transcripts/SOURCES.tsv) and recordings of
clients against a scripted provider that reports a quarter of the request's characters.
"""
import glob, gzip, json, os, sys
import tiktoken

TURNS_MAX = 120
SESSIONS = (
    "claude-code/cc-105-user-turns.jsonl.gz claude-code/cc-ai-title-prlink.jsonl.gz claude-code/cc-bridge-session.jsonl.gz "
    "claude-code/cc-2300-lines-progress.jsonl.gz claude-code/cc-2025-dangling-three.jsonl.gz claude-code/cc-image-small.jsonl.gz "
    "claude-code/cc-images-compaction-b.jsonl.gz claude-code/cc-parent-of-subagents.jsonl.gz claude-code/cc-zh-small.jsonl "
    "claude-code/cc-three-compactions.jsonl.gz claude-code/cc-summary-lines-13.jsonl.gz claude-code/cc-progress-small.jsonl.gz "
    "codex-rollout/cx-dangling-call.jsonl.gz codex-rollout/cx-compacted-2800-lines.jsonl.gz codex-rollout/cx-exec-command-end.jsonl.gz "
    "codex-rollout/cx-input-image.jsonl.gz codex-rollout/cx-two-compactions.jsonl.gz "
    "pi-session/pi-before-compaction.jsonl.gz pi-session/pi-compaction.jsonl.gz pi-session/pi-parallel-tools.jsonl.gz"
).split()
RECORDED = "claude/cc2 claude/cc_win codex/codex2 codex/codex_oai opencode/oc1 opencode/oc_openai hermes/hm2".split()

encoding = tiktoken.get_encoding("o200k_base")


def count(value):
    if not value:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(encoding.encode_ordinary(text))


def lines(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", errors="replace") as file:
        for line in file:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def content(parts):
    if not isinstance(parts, list):
        return count(parts)
    total = 0
    for part in parts:
        if not isinstance(part, dict):
            total += count(part)
            continue
        kind = part.get("type")
        if kind in ("text", "input_text", "output_text"):
            total += count(part.get("text"))
        elif kind in ("tool_use", "toolCall"):
            total += count(part.get("name")) + count(part.get("input", part.get("arguments")))
        elif kind == "tool_result":
            total += content(part.get("content"))
        elif kind in ("image", "input_image", "image_url"):
            total += 1600
        elif kind == "thinking":
            total += count(part.get("thinking"))
    return total


def claude_code(path):
    counted, seen = 0, set()
    for line in lines(path):
        message = line.get("message")
        if line.get("isSidechain") or line.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        if line["type"] == "user":
            if line.get("isCompactSummary"):
                counted = 0
                yield None
            counted += 4 + content(message.get("content"))
        elif message.get("model") != "<synthetic>":
            if message.get("id") not in seen:
                seen.add(message.get("id"))
                usage = message.get("usage") or {}
                names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
                yield counted, sum(usage.get(name) or 0 for name in names)
                counted += 4
            counted += content(message.get("content"))


def item(payload):
    kind = payload.get("type")
    if kind == "message":
        return 4 + content(payload.get("content"))
    if kind in ("function_call", "custom_tool_call"):
        return 4 + count(payload.get("name")) + count(payload.get("arguments") or payload.get("input"))
    if kind in ("function_call_output", "custom_tool_call_output"):
        return 4 + content(payload.get("output"))
    return 0


def codex(path):
    counted = before = 0
    was_answer = False
    for line in lines(path):
        payload = line.get("payload") or {}
        if line.get("type") == "response_item":
            is_answer = payload.get("role") == "assistant" or payload.get("type") in ("reasoning", "function_call", "custom_tool_call")
            if is_answer and not was_answer:
                before = counted
            was_answer = is_answer
            counted += item(payload)
        elif line.get("type") == "compacted":
            counted = sum(item({"type": "message", **one}) for one in payload.get("replacement_history") or [])
            yield None
        elif payload.get("type") == "token_count":
            usage = (payload.get("info") or {}).get("last_token_usage") or {}
            yield before, usage.get("input_tokens") or 0


def pi(path):
    counted = 0
    for line in lines(path):
        if line.get("type") == "compaction":
            counted = count(line.get("summary"))
            yield None
        message = line.get("message") if line.get("type") == "message" else None
        if not message:
            continue
        if message["role"] == "assistant":
            usage = message.get("usage") or {}
            yield counted, sum(usage.get(name) or 0 for name in ("input", "cacheRead", "cacheWrite"))
        counted += 4 + content(message.get("content") or message.get("output"))


def recorded(path):
    known = {}

    def whole(value):
        if isinstance(value, dict):
            if "$def" in value and "v" in value:
                known[value["$def"]] = value["v"]
                return value["v"]
            if "$use" in value and len(value) == 1:
                return known[value["$use"]]
            return {key: whole(one) for key, one in value.items()}
        return [whole(one) for one in value] if isinstance(value, list) else value

    before = 0
    for line in lines(path):
        body = whole(line.get("request"))
        if line.get("tag") not in ("turn", "final") or not isinstance(body, dict):
            continue
        messages = body.get("messages") or body.get("input") or []
        counted = sum(message_count(message) for message in messages)
        if counted < before:
            yield None
        before = counted
        yield counted, line.get("tokens") or 0


def message_count(message):
    if message.get("type", "message") != "message":
        return item(message)
    calls = message.get("tool_calls") or []
    return 4 + content(message.get("content")) + sum(count((c.get("function") or {}).get("name")) + count((c.get("function") or {}).get("arguments")) for c in calls)


def write(name, turns):
    last, written = None, 0
    for turn in turns:
        if written == TURNS_MAX:
            break
        if turn is None:
            print(f"{name}\t-\t-")
        elif turn[1] and turn != last:
            print(f"{name}\t{turn[0]}\t{turn[1]}")
            last, written = turn, written + 1


def main():
    data, captures = sys.argv[1:]
    print("session\tcounted\treported")
    readers = {"claude-code": claude_code, "codex-rollout": codex, "pi-session": pi}
    for session in SESSIONS:
        write(session.split("/")[1].split(".")[0], readers[session.split("/")[0]](os.path.join(data, session)))
    for session in RECORDED:
        write(session.replace("/", "-"), recorded(os.path.join(captures, session + ".traffic.jsonl.gz")))


main()
