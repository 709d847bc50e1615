package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/net/near"
)

// TestRateLimitsAreRead: received_messages_rate_limits changes neard's limits, as in neard, and is
// refused where neard refuses it.
func TestRateLimitsAreRead(t *testing.T) {
	t.Parallel()
	proof := near.Rate{Maximum: 1, Initial: 1, Refill: 1.0 / 30}
	for _, x := range []struct {
		name, in string
		want     map[string]near.Rate
		problem  string
	}{
		{"null", `null`, map[string]near.Rate{"EpochSyncRequest": proof, "EpochSyncResponse": proof}, ""},
		{"empty", `{"rate_limits":{}}`, map[string]near.Rate{"EpochSyncRequest": proof, "EpochSyncResponse": proof}, ""},
		{"one more", `{"rate_limits":{"OptimisticBlock":{"maximum_size":9,"refill_rate":2.5,"initial_size":3}}}`,
			map[string]near.Rate{"EpochSyncRequest": proof, "EpochSyncResponse": proof, "OptimisticBlock": {Maximum: 9, Initial: 3, Refill: 2.5}}, ""},
		{"one less, one other", `{"rate_limits":{"EpochSyncRequest":null,"EpochSyncResponse":{"maximum_size":4294967295,"refill_rate":0,"initial_size":null}}}`,
			map[string]near.Rate{"EpochSyncResponse": {Maximum: maxU32, Initial: maxU32}}, ""},
		{"a key of messages that this node never gets", `{"rate_limits":{"SpicePartialData":null}}`, map[string]near.Rate{"EpochSyncRequest": proof, "EpochSyncResponse": proof}, ""},
		{"no list", `{}`, nil, "must have an object rate_limits"},
		{"a list", `[]`, nil, "must be an object or null"},
		{"unknown message", `{"rate_limits":{"Blocks":null}}`, nil, `"Blocks" is no kind of message`},
		{"a number", `{"rate_limits":{"Block":5}}`, nil, "must be an object like"},
		{"no size", `{"rate_limits":{"Block":{"refill_rate":1}}}`, nil, "maximum_size must be"},
		{"large size", `{"rate_limits":{"Block":{"maximum_size":4294967296,"refill_rate":1}}}`, nil, "maximum_size must be"},
		{"negative start", `{"rate_limits":{"Block":{"maximum_size":1,"refill_rate":1,"initial_size":-1}}}`, nil, "initial_size must be"},
		{"no rate", `{"rate_limits":{"Block":{"maximum_size":1}}}`, nil, "refill_rate must be"},
		{"negative rate", `{"rate_limits":{"Block":{"maximum_size":1,"refill_rate":-1}}}`, nil, "refill_rate must be"},
		{"infinite rate", `{"rate_limits":{"Block":{"maximum_size":1,"refill_rate":1e39}}}`, nil, "refill_rate must be"},
		{"tiny rate", `{"rate_limits":{"Block":{"maximum_size":1,"refill_rate":1e-40}}}`, nil, "refill_rate must be"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, _, err := Parse("config.json", []byte(nested(rateLimits, x.in)))
			if (err == nil) != (x.problem == "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Fatalf("%v, want %q", err, x.problem)
			}
			if err == nil && !maps.Equal(c.Network.Rates(), x.want) {
				t.Errorf("%+v, want %+v", c.Network.Rates(), x.want)
			}
		})
	}
}
