const shared = process.env.SHARED && {
  globalSetup: "@troupe-chain/sandbox/global-setup",
  globalTeardown: "@troupe-chain/sandbox/global-teardown",
};
module.exports = { testMatch: ["**/*.jest.cjs"], moduleFileExtensions: ["cjs", "js", "mjs", "json"], transform: {}, ...shared };
