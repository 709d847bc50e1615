// Package earlykickout holds the arithmetic of EarlyKickout (NEP-652, protocol version 87): which
// chunk producers are skipped for the rest of an epoch because they miss their chunks, and which of
// the others takes their place.
//
// Problem. A chunk producer that fails keeps its turns until the kickouts at the end of the second
// next epoch, a day on mainnet. Its shard misses a part of its chunks all that time.
//
// Terms. P is the parent of the block that a chunk is made for, and its anchor A is the parent of
// P. F is the last final block that A names. A settlement is the list of a shard's chunk producers
// in an epoch, with repeats.
//
// Invariants.
//
//   - Every node that has A has the same row (A, s) for every shard s of A's epoch: it depends on A
//     and its ancestors alone. So a message that names A can be checked without P.
//   - A row is made once, with A's BlockInfo, and read back as it was. Nothing is computed in its
//     place if it is missing: after an epoch sync the statistics behind it are gone.
//   - A list never empties a settlement: if all members are candidates, the best one stays.
//   - A listed producer is not drawn, so its counters stop. It stays listed to the end of the epoch
//     unless the keep-one rule picks it, and the kickout at the epoch's end judges the frozen
//     counters.
//
// Outline.
//
//	producer of a       protocol version < 87, P is genesis,
//	chunk on P          or A is of another epoch than the chunk      canonical draw at P.height + 1
//	                    else                                         row (A, s)
//	row (A, s)          a draw at A.height + 2 among the settlement without the list of (A, s)
//	list of (A, s)      empty if F is of an earlier epoch than A or less than GraceBlocks after the
//	                    epoch's first block; else the candidates of the epoch's statistics up to F
//	candidate           missed ≥ MinMissed, and produced·100 < expected·MinProducedPercent
//
// The two draws differ even while the list is empty: if heights were skipped between A and P, then
// A.height + 2 is not P.height + 1. Chunk validators are always drawn at P.height + 1.
//
// The draw renormalizes: it builds a new table from the remaining stakes and uses the same seed. So
// slots of producers that are not listed move too.
//
// Rejected. Taking the list at P instead of A: the producer of a chunk would be known only after P,
// and parts that arrive before P could not be checked. Falling back to the canonical draw for a
// missing row: two nodes would disagree about a signature.
//
//	in      settlements, stakes, counters, heights
//	out     lists of validator IDs, draws
//	state   none
//	units   heights in blocks, stakes in yoctoNEAR
//	bound   work and memory grow with the settlement
//	errors  ErrAllListed
//	source  near-primitives 0.38.0 src/epoch_info.rs:600 (draw); nearcore 2.14.0-rc.1
//	        chain/epoch-manager/src/tests/early_kickout.rs (list); NEP-652
package earlykickout
