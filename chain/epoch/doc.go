// Package epoch determines the epochs of a chain: their validators, block and chunk producers,
// chunk validators, kickouts, rewards and shard layouts, and when a shard is split.
//
//	in      GenesisParams and epoch config files; BlockInfo per block, parents first, forks allowed
//	out     Changes: what to persist (BlockInfo, EpochInfo, EpochSummary, epoch starts); answers to
//	        queries
//	state   Manager: bounded caches and one Aggregator up to the last final block; the rest is read
//	        from a Store
//	units   stake in yoctoNEAR (u128), heights in blocks, time in nanoseconds
//	bound   caches of 1000 blocks, 50 epochs, 1000 samples, 64 blacklists and 4 hashes of epochs; work
//	        at an epoch's end grows with its blocks once, also at a fork below the last final block
//	errors  ErrMissingBlock, ErrEpochOutOfBounds, ErrNotAValidator, ErrSharding,
//	        ErrNotEnoughValidators, ErrChunkProducerNotInDB, ErrConfig
//	source  nearcore f0c7706f1 chain/epoch-manager,
//	        core/primitives/src/{epoch_info,epoch_block_info,epoch_manager}.rs
//
// Every byte of an EpochInfo is part of consensus, because the first block of an epoch contains a
// hash over three EpochInfos (EpochSyncDataHash). In comments, T is the epoch that ends. The
// EpochInfo of T+2 is computed with T's last block.
package epoch
