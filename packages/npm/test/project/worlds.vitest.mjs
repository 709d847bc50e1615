import { test as base } from "vitest";
import { worldFixtures } from "@troupe-chain/sandbox/vitest";
import each from "./each.cjs";

const test = base.extend(worldFixtures({ setup: each.setup }));
for (let i = 0; i < 50; i++) test(`world ${i}`, ({ world }) => each.check(world, i));
