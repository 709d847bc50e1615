// /openapi.json of the node: a strict validator accepts it, openapi-typescript makes types of it, and a client that these
// types describe compiles, with the errors that it must have.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import openapiTS, { astToString } from "openapi-typescript";
import { equal, ok, step, done, url } from "./check.mjs";

const text = await (await fetch(`${url}/openapi.json`)).text();
const document = JSON.parse(text);

await step("a strict validator", async () => {
  const validator = new Validator();
  const result = await validator.validate(JSON.parse(text));
  ok(result.valid, JSON.stringify(result.errors)?.slice(0, 2000));
  equal(validator.version, "3.1", "version");
  const broken = JSON.parse(text);
  delete broken.paths["/status"].post.responses["200"].description;
  ok(!(await new Validator().validate(broken)).valid, "the validator accepts a response without a description");
});

// OpenAPI 3.1 leaves schemas to JSON Schema 2020-12.
await step("schemas", async () => {
  const ajv = new Ajv2020();
  const { schemas } = document.components;
  for (const [name, schema] of Object.entries(schemas)) ok(ajv.validateSchema(schema), `${name}: ${JSON.stringify(ajv.errors)}`);
  ok(!ajv.validateSchema({ ...schemas.AccountId, type: "text" }), "the validator accepts a type that does not exist");
});

await step("servers", async () => {
  const { servers } = document;
  const at = new URL(`${servers[0].url}status`.replace("//", "/"), `${url}/openapi.json`);
  const reply = await (await fetch(at, { method: "POST", body: "[]" })).json();
  ok(reply.result?.chain_id ?? reply.chain_id, JSON.stringify(reply).slice(0, 200));
});

await step("types of openapi-typescript compile", async () => {
  const dir = mkdtempSync(join(fileURLToPath(new URL(".", import.meta.url)), ".openapi-"));
  try {
    writeFileSync(join(dir, "api.d.ts"), astToString(await openapiTS(text)));
    writeFileSync(join(dir, "client.ts"), `
import type { components, paths } from "./api.js";

type Request<P extends keyof paths> = paths[P]["post"]["requestBody"]["content"]["application/json"];
type Reply<P extends keyof paths> = paths[P]["post"]["responses"][200]["content"]["application/json"];

async function call<P extends keyof paths>(path: P, params: Request<P>["params"]): Promise<Reply<P>> {
  const method = path.slice(1);
  const reply = await fetch("http://localhost:3030" + path, { method: "POST", body: JSON.stringify({ jsonrpc: "2.0", id: "1", method, params }) });
  return (await reply.json()) as Reply<P>;
}

export async function main(dump: Request<"/sandbox_replay_transaction">["params"]): Promise<number> {
  const block = await call("/block", { finality: "final" });
  if (!("result" in block)) throw new Error(block.error.name);
  await call("/sandbox_replay_transaction", { ...dump, replace: true });
  // @ts-expect-error there is no such finality
  await call("/block", { finality: "soon" });
  // @ts-expect-error heights are numbers
  const text: string = block.result.header.height;
  // @ts-expect-error replace is a boolean
  await call("/sandbox_replay_transaction", { ...dump, replace: "yes" });
  const range: components["schemas"]["ShardId"] = 1;
  return block.result.header.height + range + text.length;
}
`);
    const tsc = fileURLToPath(new URL("node_modules/typescript/bin/tsc", import.meta.url));
    writeFileSync(join(dir, "tsconfig.json"), JSON.stringify({ files: ["client.ts"],
      compilerOptions: { noEmit: true, strict: true, target: "es2022", module: "node16", lib: ["es2022", "dom"], types: [] } }));
    try {
      execFileSync(process.execPath, [tsc, "--project", dir], { stdio: "pipe" });
    } catch (e) {
      throw new Error(String(e.stdout).slice(0, 4000));
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

done();
