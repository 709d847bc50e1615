import { worldTest } from "@troupe-chain/sandbox/node-test";
import each from "./each.cjs";

const test = worldTest({ setup: each.setup });
for (let i = 0; i < 50; i++) test(`world ${i}`, (world) => each.check(world, i));
