import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { SandboxError } from "./errors.js";

/** The platforms that a package with a binary exists for, as process.platform and process.arch name them. */
export const platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"] as const;

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * Finds the binary of troupe: the file that TROUPE_BIN names, else that of the platform's package, else `troupe` in
 * PATH. Throws a SandboxError of the kind NoBinary if there is none.
 */
export function findBinary(env: NodeJS.ProcessEnv = process.env): string {
  const named = env["TROUPE_BIN"];
  if (named) {
    if (isExecutable(named)) return named;
    throw new SandboxError("NoBinary", `TROUPE_BIN is ${named}, which is not an executable file`);
  }
  const platform = `${process.platform}-${process.arch}`;
  const name = `@troupe-chain/troupe-${platform}`;
  const known = (platforms as readonly string[]).includes(platform);
  if (known) {
    try {
      return require.resolve(`${name}/bin/troupe`);
    } catch {
      // it was not installed: PATH is next
    }
  }
  for (const dir of (env["PATH"] ?? "").split(delimiter)) {
    const path = join(dir, "troupe");
    if (dir && isExecutable(path)) return path;
  }
  throw new SandboxError(
    "NoBinary",
    known
      ? `the package ${name} is not installed: install with optional dependencies (without --no-optional or --omit=optional), ` +
        "or set TROUPE_BIN to a binary of troupe"
      : `there is no package with a binary of troupe for ${platform}, only for ${platforms.join(", ")}: ` +
        "build troupe from source and set TROUPE_BIN to it, or add it to PATH",
  );
}
