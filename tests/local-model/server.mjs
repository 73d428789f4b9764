// Serves a small language model behind the Chat Completions API, on this machine only, for tests of summaries.
//
// node server.mjs MODEL.gguf   prints "listening PORT" when it is ready; ends when its standard input closes.
import { createServer } from "node:http";
import { getLlama, LlamaChatSession } from "node-llama-cpp";

const MODEL = "local-model";
// The model's own context window, in tokens.
const CONTEXT_TOKENS = 8192;
// Its answers have no natural end more often than not.
const ANSWER_TOKENS_MAX = 120;
const BODY_BYTES_MAX = 4 * 1024 * 1024;

// More than one thread spins against whatever else runs on a small machine.
const llama = await getLlama({ build: "never", skipDownload: true, gpu: false, maxThreads: 1, logLevel: "error" });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });

class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("\n");
}

async function complete(body, signal) {
  if (body.model !== MODEL) throw new Refusal(404, "model_not_found", `the model here is ${MODEL}`);
  if (!Array.isArray(body.messages) || body.messages.length === 0) {
    throw new Refusal(400, "invalid_request_error", "messages must be a list that is not empty");
  }
  const system = body.messages.filter((message) => message.role === "system").map((message) => textOf(message.content));
  const prompt = body.messages.filter((message) => message.role !== "system").map((message) => textOf(message.content));
  const promptTokens = model.tokenize([...system, ...prompt].join("\n")).length;
  if (promptTokens + ANSWER_TOKENS_MAX > CONTEXT_TOKENS) {
    const what = `This model's maximum context length is ${CONTEXT_TOKENS} tokens. However, your messages resulted in ${promptTokens} tokens.`;
    throw new Refusal(400, "context_length_exceeded", what);
  }
  const sequence = context.getSequence();
  const session = new LlamaChatSession({ contextSequence: sequence, systemPrompt: system.join("\n") || undefined });
  try {
    const answer = await session.promptWithMeta(prompt.join("\n\n"), { maxTokens: ANSWER_TOKENS_MAX, temperature: 0, signal });
    const answerTokens = model.tokenize(answer.responseText).length;
    return {
      id: "chatcmpl-local",
      object: "chat.completion",
      model: MODEL,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: answer.responseText },
          finish_reason: answer.stopReason === "maxTokens" ? "length" : "stop",
        },
      ],
      usage: { prompt_tokens: promptTokens, completion_tokens: answerTokens, total_tokens: promptTokens + answerTokens },
    };
  } finally {
    session.dispose();
    sequence.dispose();
  }
}

async function read(request) {
  let text = "";
  for await (const chunk of request) {
    text += chunk;
    if (text.length > BODY_BYTES_MAX) throw new Refusal(413, "too_large", "the request is too large");
  }
  return JSON.parse(text);
}

// The model answers one request at a time.
let last = Promise.resolve();
const server = createServer((request, response) => {
  const send = (status, value) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  // A caller that has given up is not worked for.
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  last = last.then(async () => {
    try {
      if (request.method !== "POST" || request.url !== "/v1/chat/completions") throw new Refusal(404, "not_found", request.url);
      send(200, await complete(await read(request), gone.signal));
    } catch (error) {
      send(error.status ?? 500, { error: { message: error.message, type: error.code ?? "server_error", code: error.code ?? null } });
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(`listening ${server.address().port}`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
