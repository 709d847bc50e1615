const { worldTest } = require("@troupe-chain/sandbox/jest");
const each = require("./each.cjs");

const worldly = worldTest({ setup: each.setup });
for (let i = 0; i < 50; i++) worldly(`world ${i}`, (world) => each.check(world, i));
worldly.skip("skipped", () => { throw new Error("a skipped test ran"); });
