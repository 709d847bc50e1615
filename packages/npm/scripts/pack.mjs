// Packs dist/*.tgz: @troupe-chain/sandbox, and @troupe-chain/troupe-PLATFORM for each PLATFORM=BINARY in the arguments.
// BINARY is in the folder of a release, beside completions/.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const root = join(here, "..", "..");
const dist = join(here, "dist");
const main = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const { version, license, repository, optionalDependencies } = main;
const licenses = ["LICENSE-MIT", "LICENSE-APACHE"];

for (const [name, wanted] of Object.entries(optionalDependencies)) {
  if (wanted !== version) throw new Error(`package.json: ${name} is ${wanted}, must be ${version}`);
}
mkdirSync(dist, { recursive: true });
for (const f of readdirSync(dist)) if (f.endsWith(".tgz")) rmSync(join(dist, f));

function pack(name, manifest, fill) {
  const dir = join(dist, name);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir);
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest, null, 2) + "\n");
  for (const l of licenses) cpSync(join(root, l), join(dir, l));
  fill(dir);
  const out = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dist], { cwd: dir, encoding: "utf8" });
  const info = Object.values(JSON.parse(out))[0];
  const file = join(dist, info.filename.replace(/^@/, "").replace("/", "-"));
  const mib = (n) => (n / (1 << 20)).toFixed(2) + " MiB";
  console.log(`${file.slice(here.length + 1)}  ${mib(statSync(file).size)}, unpacked ${mib(info.unpackedSize)}`);
  rmSync(dir, { recursive: true });
}

const { devDependencies, scripts, ...published } = main;
pack("sandbox", published, (dir) => {
  cpSync(join(here, "lib"), join(dir, "lib"), { recursive: true });
  cpSync(join(here, "README.md"), join(dir, "README.md"));
});
for (const arg of process.argv.slice(2)) {
  const [platform, binary] = arg.split("=");
  const name = `@troupe-chain/troupe-${platform}`;
  if (!binary || !optionalDependencies[name]) throw new Error(`${arg}: must be PLATFORM=BINARY, PLATFORM one of the optional dependencies`);
  const [os, cpu] = platform.split("-");
  const manifest = { name, version, description: `The binary of Troupe, a NEAR node, for ${platform}`, license, repository, os: [os], cpu: [cpu], preferUnplugged: true };
  // a binary that is linked statically runs with any C library
  const dynamic = os === "linux" && execFileSync("readelf", ["-lW", binary], { encoding: "utf8" }).includes("INTERP");
  if (dynamic) manifest.libc = ["glibc"];
  pack(`troupe-${platform}`, manifest, (dir) => {
    mkdirSync(join(dir, "bin"));
    cpSync(binary, join(dir, "bin", "troupe"));
    chmodSync(join(dir, "bin", "troupe"), 0o755);
    cpSync(join(dirname(binary), "completions"), join(dir, "completions"), { recursive: true });
    writeFileSync(join(dir, "README.md"), `# ${name}\n\nThe binary of [Troupe](https://github.com/troupe-chain/troupe) for ${platform}. Install \`@troupe-chain/sandbox\`, which uses it. \`completions/\` has shell completion for bash, zsh and fish.\n`);
  });
}
