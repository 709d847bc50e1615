package limits

import (
	"strings"
	"testing"
	"time"
)

// TestTableRowsAreUniqueAndInBounds: each row has a unique key, a default within its bounds, and a
// description that fits a table of docs/operate/config.md.
func TestTableRowsAreUniqueAndInBounds(t *testing.T) {
	for i := range Table {
		r := &Table[i]
		places := 0
		for _, set := range []bool{r.Number != nil, r.Time != nil, r.Address != nil} {
			if set {
				places++
			}
		}
		if places != 1 || r.Default < r.Min || r.Default > r.Max || r.Doc == "" {
			t.Errorf("%s: %d places, default %d of %d to %d", r.Key, places, r.Default, r.Min, r.Max)
		}
		var l Limits
		if r.Set(&l, 7, true); r.Get(&l) != 7 || l == (Limits{}) {
			t.Errorf("%s is not kept", r.Key)
		}
		if strings.ContainsAny(r.Doc, "|\n") || strings.HasSuffix(r.Doc, ".") || r.Shown() == "" {
			t.Errorf("%s: %s (default %s)", r.Key, r.Doc, r.Shown())
		}
	}
	for id, key := range map[ID]string{MaxConnections: "max_connections", MaxParked: "max_parked_requests", BatchTime: "batch_timeout",
		MaxReply: "max_reply_bytes", MaxAddressSimulations: "max_simulations_per_address"} {
		if Table[id].Key != key {
			t.Errorf("limit %d is %s, want %s", id, Table[id].Key, key)
		}
	}
	if d := Default(); d.BatchTimeout != 20*time.Second || d.AddressParked.Loopback {
		t.Errorf("defaults: %+v", d)
	}
}

// TestLimitsScaleWithMemory: the limits of bytes in flight scale with the machine's memory, are at
// least the table's defaults, and keep values that are named.
func TestLimitsScaleWithMemory(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		memory                 uint64
		named                  Named
		inFlight, ofOneAddress uint64
	}{
		{"little memory", 256 * mib, Named{}, 48 * mib, 40 * mib},
		{"eight gigabytes", 8 * gib, Named{}, 512 * mib, 8 * gib / 20},
		{"one is named", 8 * gib, Named{MaxInFlight: true}, 48 * mib, 8 * gib / 20},
		{"more than may be", 4096 * gib, Named{}, 64 * gib, 64 * gib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, want := Default(), Default()
			l.FitMemory(tc.memory, &tc.named)
			want.InFlight, want.AddressInFlight.Max = tc.inFlight, tc.ofOneAddress
			if l != want {
				t.Errorf("got %+v, want %+v", l, want)
			}
		})
	}
}
