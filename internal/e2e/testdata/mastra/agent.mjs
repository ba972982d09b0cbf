// A Mastra agent behind an AG-UI endpoint, offline: the model is scripted, all
// else (agent loop, tool suspension, storage, the AG-UI bridge) is Mastra's.
//
//   PORT=8961 node agent.mjs      prints "ready http://127.0.0.1:8961/"
//
// PORT=0, the default, takes a free port. WORD_MS is the pause between words.
// A message with "email" in it makes the agent call a tool that suspends until
// the run is resumed with {"approved": true|false}; any other is echoed.
process.env.MASTRA_TELEMETRY_DISABLED = "1";

import http from "node:http";
import { EventEncoder } from "@ag-ui/encoder";
import { MastraAgent } from "@ag-ui/mastra";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV2, simulateReadableStream } from "ai/test";
import { z } from "zod";

const bodyLimit = 8 << 20;
const wordMs = Number(process.env.WORD_MS ?? 5);

const sendEmail = createTool({
  id: "send_email",
  description: "Sends an email once a person has approved it.",
  inputSchema: z.object({ to: z.string() }),
  suspendSchema: z.object({ question: z.string() }),
  resumeSchema: z.object({ approved: z.boolean() }),
  outputSchema: z.object({ sent: z.boolean() }),
  execute: async ({ to }, { agent }) => {
    if (!agent.resumeData) {
      return agent.suspend({ question: `Send the email to ${to}?` });
    }
    return { sent: agent.resumeData.approved };
  },
});

const textOf = ({ content }) =>
  typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");

function say(text) {
  const words = text.match(/\S+\s*/g) ?? [];
  return [
    { type: "text-start", id: "answer" },
    ...words.map((delta) => ({ type: "text-delta", id: "answer", delta })),
    { type: "text-end", id: "answer" },
    finish("stop", words.length),
  ];
}

function askToSend() {
  const call = { toolCallId: `call-${crypto.randomUUID()}`, toolName: "sendEmail" };
  return [{ type: "tool-call", ...call, input: '{"to":"ada@example.com"}' }, finish("tool-calls", 1)];
}

function finish(finishReason, outputTokens) {
  return {
    type: "finish",
    finishReason,
    usage: { inputTokens: 3, outputTokens, totalTokens: 3 + outputTokens },
  };
}

function next(prompt) {
  const last = prompt.at(-1);
  if (last.role === "tool") {
    const sent = JSON.stringify(last.content).includes('"sent":true');
    return say(sent ? "The email is on its way." : "I did not send the email.");
  }
  const text = textOf(prompt.findLast((message) => message.role === "user"));
  return text.includes("email") ? askToSend() : say(`Mastra heard: ${text}`);
}

const model = new MockLanguageModelV2({
  provider: "scripted",
  modelId: "scripted",
  doStream: async ({ prompt }) => ({
    stream: simulateReadableStream({
      initialDelayInMs: 0,
      chunkDelayInMs: wordMs,
      chunks: [{ type: "stream-start", warnings: [] }, ...next(prompt)],
    }),
  }),
});

// The storage keeps the snapshots of suspended runs: without it nothing resumes.
const mastra = new Mastra({
  storage: new InMemoryStore(),
  logger: false,
  agents: {
    clerk: new Agent({
      id: "clerk",
      name: "clerk",
      instructions: "Be brief.",
      model,
      tools: { sendEmail },
    }),
  },
});

async function read(req) {
  const chunks = [];
  let size = 0;
  for await (const chunk of req) {
    size += chunk.length;
    if (size > bodyLimit) throw new Error("body too large");
    chunks.push(chunk);
  }
  const input = JSON.parse(Buffer.concat(chunks));
  if (typeof input.threadId !== "string" || !Array.isArray(input.messages)) {
    throw new Error("not a RunAgentInput");
  }
  return { tools: [], context: [], state: {}, forwardedProps: {}, ...input };
}

const server = http.createServer(async (req, res) => {
  let input;
  try {
    input = await read(req);
  } catch (err) {
    res.writeHead(400, { "Content-Type": "application/json" });
    res.end(JSON.stringify({ error: err.message }));
    return;
  }
  const encoder = new EventEncoder({ accept: req.headers.accept });
  res.writeHead(200, { "Content-Type": encoder.getContentType(), "Cache-Control": "no-cache" });
  const agent = new MastraAgent({ agent: mastra.getAgent("clerk"), agentId: "clerk", resourceId: "e2e" });
  const run = agent.run(input).subscribe({
    next: (event) => res.write(encoder.encodeBinary(event)),
    error: (err) => {
      res.end(encoder.encodeBinary({ type: "RUN_ERROR", message: String(err?.message ?? err) }));
    },
    complete: () => res.end(),
  });
  res.on("close", () => run.unsubscribe());
});

server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`ready http://127.0.0.1:${server.address().port}/`);
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
