package daemon

import (
	"time"

	"github.com/troupe-chain/troupe/engine/metrics"
)

// Metrics of maintenance and of the configuration, with nearcore's names and bounds (nearcore
// chain/client/src/metrics.rs, core/dyn-configs/src/metrics.rs).
var (
	gcTime = &metrics.Family{Name: "near_gc_time", Kind: metrics.Histogram, Per: 1e9,
		Bounds: metrics.Bounds(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
		Help:   "Time of one step of garbage collection, which removes at most gc_blocks_limit heights"}
	configReloads = &metrics.Family{Name: "near_config_reloads_total", Kind: metrics.Counter,
		Help: "Times that the configuration was read without an error; 1 after the start, as in neard"}
	configReloadTime = &metrics.Family{Name: "near_config_reload_timestamp_seconds", Kind: metrics.Gauge,
		Help: "Seconds since 1970 when the configuration was last read without an error"}
)

// configRead counts that the configuration was read.
func (h *Daemon) configRead() {
	h.measured.Add(configReloads, 1)
	h.measured.Put(configReloadTime, time.Now().Unix())
}
