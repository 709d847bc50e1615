export default { test: { include: ["*.vitest.mjs"], globalSetup: process.env.SHARED ? "@troupe-chain/sandbox/global-setup" : [] } };
