package genesis

import _ "embed" // for the genesis of mainnet

// Mainnet is the genesis.json of mainnet, packed with gzip. Read-only.
//
//go:embed mainnet.json.gz
var Mainnet []byte
