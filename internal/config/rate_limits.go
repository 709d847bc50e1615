package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/troupe-chain/troupe/net/near"
)

// rateLimits is the key of the limits on messages of peers.
const rateLimits = overrides + "received_messages_rate_limits"

// RateOverride replaces neard's limit on a kind of message.
type RateOverride struct {
	Off  bool // true: there is no limit
	Rate near.Rate
}

// Rates returns the limits on messages of peers: neard's, changed by ReceivedLimits.
func (n *Network) Rates() map[string]near.Rate {
	out := near.StandardRates()
	for name, x := range n.ReceivedLimits {
		if delete(out, name); !x.Off {
			out[name] = x.Rate
		}
	}
	return out
}

// readRateLimits reads the value of the key rateLimits (nearcore messages_limits.rs OverrideConfig).
// The result is nil for null.
func readRateLimits(v any) (map[string]RateOverride, error) {
	if v == nil {
		return nil, nil
	}
	d, ok := v.(*Document)
	if !ok {
		return nil, fmt.Errorf("must be an object or null")
	}
	list, ok := d.values["rate_limits"].(*Document)
	if !ok {
		return nil, fmt.Errorf("must have an object rate_limits")
	}
	out := map[string]RateOverride{}
	for _, name := range list.keys {
		if !near.IsRateKey(name) {
			return nil, fmt.Errorf("rate_limits: %q is no kind of message; like Block or PeersRequest", clip(name))
		}
		x := RateOverride{Off: list.values[name] == nil}
		if !x.Off {
			var err error
			if x.Rate, err = readRate(list.values[name]); err != nil {
				return nil, fmt.Errorf("rate_limits.%s: %w", name, err)
			}
		}
		out[name] = x
	}
	return out, nil
}

func readRate(v any) (r near.Rate, err error) {
	d, ok := v.(*Document)
	if !ok {
		return r, fmt.Errorf(`must be an object like {"maximum_size": 10, "refill_rate": 1.5}, or null`)
	}
	most, ok := asU64(d.values["maximum_size"])
	if !ok || most > maxU32 {
		return r, fmt.Errorf("maximum_size must be an integer from 0 to %d", maxU32)
	}
	first := most
	if v := d.values["initial_size"]; v != nil {
		if first, ok = asU64(v); !ok || first > maxU32 {
			return r, fmt.Errorf("initial_size must be an integer from 0 to %d, or null", maxU32)
		}
	}
	number, _ := d.values["refill_rate"].(json.Number)
	refill, err := strconv.ParseFloat(string(number), 32)
	// As neard, refuse a rate without full precision.
	if err != nil || refill < 0 || refill != 0 && refill < 0x1p-126 || math.IsInf(refill, 0) {
		return r, fmt.Errorf("refill_rate must be a number of tokens a second, 0 or more")
	}
	return near.Rate{Maximum: uint32(most), Initial: uint32(first), Refill: float32(refill)}, nil
}
