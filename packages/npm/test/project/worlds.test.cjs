const { worldTest } = require("@troupe-chain/sandbox/node-test");
const each = require("./each.cjs");

const test = worldTest({ setup: each.setup });
for (let i = 0; i < 5; i++) test(`world ${i} from CommonJS`, { timeout: 20_000 }, (world, t) => each.check(world, t.name.length + i));
