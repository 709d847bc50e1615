package engine

import "github.com/troupe-chain/troupe/engine/metrics"

// Metrics of imports, with nearcore's names and bounds (nearcore chain/chain/src/metrics.rs).
var (
	importBounds = metrics.Bounds(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

	blockAttempts = &metrics.Family{Name: "near_block_processing_attempts_total", Kind: metrics.Counter,
		Help: "Attempts to import a block; most failed ones lack the parent or a chunk"}
	preprocessTime = &metrics.Family{Name: "near_block_preprocessing_time", Kind: metrics.Histogram, Per: 1e9, Bounds: importBounds,
		Help: "Time to validate a block and prepare its chunks; only of blocks that are then applied"}
	postprocessTime = &metrics.Family{Name: "near_block_postprocessing_time", Kind: metrics.Histogram, Per: 1e9, Bounds: importBounds,
		Help: "Time to import a block once its chunks are applied, without writing it to disk"}
)

// BlockFamilies lists the metrics in Times.Imports.
func BlockFamilies() []*metrics.Family {
	return []*metrics.Family{blockAttempts, preprocessTime, postprocessTime}
}
