// Package mainnetpeer is a peer of a synthetic mainnet or testnet. The chain has mainnet's chain id, epoch
// configs and genesis state, validators whose keys are known, and a history of thousands of epochs:
// an epoch sync proof, and the headers of all blocks after the proof. The peer answers as a neard
// that has no more than these data.
//
//	in      Options: epochs of the proof, epoch length, headers of the last epoch, stakes
//	out     the genesis file; a Peer on a loopback address that serves the proof and the headers
//	state   Chain: the proof, one file with all headers; Peer: counters of requests
//	units   heights and lengths in blocks
//	bound   headers are read from the file for each request, so only a few are in memory
//	errors  of the file and of the rules of epochs and headers
//	source  nearcore chain/epoch-manager/src/epoch_sync.rs, chain/client/src/sync/{epoch,header}.rs
//
// Only mainnet's first validators can sign for mainnet's genesis. So this genesis has other keys of
// these validators, and its hash differs from mainnet's. A node accepts this genesis only if the
// program is linked with that hash (engine.mainnetGenesis, engine.testnetGenesis). A testnet has the same
// genesis state as a mainnet, since testnet's own has gigabytes.
package mainnetpeer
