package daemon

// olderMetrics appends the metrics of the requests that imported blocks answer.
func (h *Daemon) olderMetrics(b []byte) []byte {
	if h.back == nil {
		return b
	}
	l := h.back.OlderLoad()
	for _, x := range []struct {
		kind, name, help string
		v                float64
	}{
		{"gauge", "reads", "Imported blocks that are read now", float64(l.Reads)},
		{"gauge", "reads_limit", "Largest number of these", float64(l.MaxReads)},
		{"gauge", "read_waits", "Requests that wait for the read of another request for the same block", float64(l.ReadWaits)},
		{"counter", "read_waits_late_total", "Requests that waited too long for that", float64(l.Late)},
		{"gauge", "lookups", "Transactions that are put together from imported blocks now", float64(l.Looks)},
		{"gauge", "lookups_limit", "Largest number of these", float64(l.MaxLooks)},
		{"gauge", "waits", "Requests for transactions of imported blocks that wait for own blocks", float64(l.Waits)},
		{"gauge", "waits_limit", "Largest number of these: troupe.history.max_waits", float64(l.MaxWaits)},
		{"counter", "waits_refused_total", "Requests that this limit has refused", float64(l.Refused)},
	} {
		b = appendMetric(b, x.kind, "troupe_history_"+x.name, x.help, x.v)
	}
	return b
}
