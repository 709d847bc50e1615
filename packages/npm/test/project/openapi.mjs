// Writes methods.mts: a program that compiles if the names of the sandbox's methods and of their parameters, and which
// parameters are required, are in the types of the package as in /openapi.json of the node.
import { writeFileSync } from "node:fs";
import { get } from "node:http";
import { Sandbox } from "@troupe-chain/sandbox";

const sandbox = await Sandbox.start();
const api = await new Promise((resolve, reject) => {
  get(`${sandbox.url}/openapi.json`, async (res) => {
    let text = "";
    for await (const part of res) text += part;
    resolve(JSON.parse(text));
  }).on("error", reject);
});
await sandbox.stop();

const resolved = (s) => (s.$ref ? resolved(s.$ref.slice(2).split("/").reduce((o, k) => o[k], api)) : s);
let names = "";
let checks = "";
for (const [path, { post }] of Object.entries(api.paths)) {
  const method = path.slice(1);
  if (!method.startsWith("sandbox_")) continue;
  names += `  ${method}: true;\n`;
  const { properties, required = [] } = resolved(resolved(post.requestBody.content["application/json"].schema).properties.params);
  const fields = Object.keys(properties ?? {}).map((p) => `${p}${required.includes(p) ? "" : "?"}: 1`);
  checks += `same<Shape<"${method}">, { ${fields.join("; ")} }>(true);\n`;
}
if (checks.split("\n").length < 30) throw new Error(`only these methods in /openapi.json:\n${names}`);
writeFileSync("methods.mts", `import type { Methods } from "@troupe-chain/sandbox";

type Sandboxed = Extract<keyof Methods, \`sandbox_\${string}\`>;
type Params<M extends Sandboxed> = NonNullable<Methods[M]["params"]>;
type Shape<M extends Sandboxed> = [Params<M>] extends [never] ? {} : { [K in keyof Params<M>]: 1 };
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(are: Same<A, B>): void;

same<{ [M in Sandboxed]: true }, {
${names}}>(true);
${checks}`);
