// Package earlykickout contains the rules of EarlyKickout (NEP-652, protocol version 87): which
// chunk producers are excluded for the rest of an epoch because they missed their chunks, and which
// other producers replace them.
//
// Problem. Without this feature, a failed chunk producer keeps being drawn until the kickouts take
// effect at the end of the next epoch, up to a day later on mainnet. Until then its shard misses a
// part of its chunks.
//
// Terms. P is the previous block of a chunk, and the chunk's anchor A is the parent of P. F is the
// last final block in A's header. A settlement is the list of a shard's chunk producers in an
// epoch, with repeats. The list of (A, s) contains the producers of shard s that are skipped for
// chunks with anchor A. The row (A, s) is the producer of these chunks.
//
// Invariants.
//
//   - Every node that has A computes the same row (A, s) for every shard s of A's epoch: it depends
//     only on A and its ancestors. So a message with anchor A can be checked without P.
//   - A row is computed once, with A's BlockInfo, and stored. A missing row is never computed
//     later, because after an epoch sync the statistics that it depends on are missing.
//   - A list never contains all producers of a settlement: if all are candidates, the best one is
//     left out.
//   - A listed producer is not drawn, so its counters do not change any more. It stays listed to
//     the end of the epoch, with one exception: if all producers of the settlement are candidates,
//     the best of them is not listed. The kickout at the end of the epoch uses these counters.
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
// The two draws may differ even if the list is empty, because A.height + 2 is not P.height + 1 if
// heights were skipped between A and P. Chunk validators are always drawn at P.height + 1.
//
// The draw renormalizes: it builds a new table from the stakes of the producers that are not
// listed, and uses the same seed. So at some heights the result changes from one unlisted producer
// to another.
//
// Rejected. Using the list at P instead of A: the producer of a chunk would be known only after P,
// and parts that arrive before P could not be checked. Using the canonical draw for a missing row:
// two nodes could expect different signers.
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
