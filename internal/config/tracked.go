package config

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// TrackedShards selects the shards that a node tracks. One field is set; None may be set together
// with an empty list.
type TrackedShards struct {
	All             bool
	None            bool
	Shards          []primitives.ShardUID
	Accounts        []primitives.AccountID
	Schedule        [][]primitives.ShardID
	ShadowValidator primitives.AccountID
}

// trackedKeys are tracked_shards_config and the older keys that tracked_shards_config replaces.
var trackedKeys = []string{
	"tracked_shards_config", "tracked_shards", "tracked_accounts", "tracked_shard_schedule", "tracked_shadow_validator",
}

const trackedAllowed = `"AllShards", "NoShards", {"Shards": ["s0.v3", ...]}, {"Accounts": [account, ...]}, {"Schedule": [[shard id, ...], ...]} or {"ShadowValidator": account}`

// trackedShards reads tracked_shards_config in all its forms or, without that key, the older keys
// in neard's order of precedence (nearcore client_config.rs from_deprecated_config_values). Without
// any of these keys, this node tracks all shards, as init writes. neard would track none.
func trackedShards(file string, d *Document) (TrackedShards, error) {
	v, ok := d.Get("tracked_shards_config")
	if !ok || v == nil {
		return oldTrackedShards(file, d)
	}
	bad := &Error{File: file, Key: "tracked_shards_config", Value: showValue(v), Allowed: trackedAllowed}
	switch v := v.(type) {
	case string:
		switch v {
		case "AllShards":
			return TrackedShards{All: true}, nil
		case "NoShards":
			return TrackedShards{None: true}, nil
		}
	case *Document:
		if len(v.keys) != 1 {
			return TrackedShards{}, bad
		}
		list, isList := v.values[v.keys[0]].([]any)
		name, isName := v.values[v.keys[0]].(string)
		switch key := v.keys[0]; {
		case key == "Shards" && isList:
			out := TrackedShards{Shards: []primitives.ShardUID{}}
			for _, x := range list {
				text, _ := x.(string)
				uid, err := primitives.ParseShardUID(text)
				if err != nil {
					return out, bad
				}
				out.Shards = append(out.Shards, uid)
			}
			out.None = len(out.Shards) == 0
			return out, nil
		case key == "Accounts" && isList:
			ids, ok := accounts(list)
			if !ok {
				return TrackedShards{}, bad
			}
			return TrackedShards{Accounts: ids, None: len(ids) == 0}, nil
		case key == "Schedule" && isList:
			rows, ok := schedule(list)
			if !ok || len(rows) == 0 {
				return TrackedShards{}, bad
			}
			return TrackedShards{Schedule: rows}, nil
		case key == "ShadowValidator" && isName:
			id, err := primitives.ParseAccountID(name)
			if err != nil {
				return TrackedShards{}, bad
			}
			return TrackedShards{ShadowValidator: id}, nil
		}
	}
	return TrackedShards{}, bad
}

func oldTrackedShards(file string, d *Document) (TrackedShards, error) {
	all, _ := d.Get("tracked_shards")
	if list, ok := all.([]any); ok && len(list) > 0 { // neard tracks all shards if the list is not empty
		return TrackedShards{All: true}, nil
	}
	if v, _ := d.Get("tracked_shard_schedule"); v != nil && len(v.([]any)) > 0 {
		rows, ok := schedule(v.([]any))
		if !ok {
			return TrackedShards{}, &Error{File: file, Key: "tracked_shard_schedule", Value: showValue(v), Allowed: "a list of lists of shard ids"}
		}
		return TrackedShards{Schedule: rows}, nil
	}
	if v, _ := d.Get("tracked_shadow_validator"); v != nil {
		id, err := primitives.ParseAccountID(v.(string))
		if err != nil {
			return TrackedShards{}, &Error{File: file, Key: "tracked_shadow_validator", Value: showValue(v), Allowed: "an account id"}
		}
		return TrackedShards{ShadowValidator: id}, nil
	}
	none := all != nil
	if v, _ := d.Get("tracked_shard_schedule"); v != nil {
		none = true
	}
	if v, _ := d.Get("tracked_accounts"); v != nil {
		ids, ok := accounts(v.([]any))
		if !ok {
			return TrackedShards{}, &Error{File: file, Key: "tracked_accounts", Value: showValue(v), Allowed: "a list of account ids"}
		}
		return TrackedShards{Accounts: ids, None: len(ids) == 0}, nil
	}
	return TrackedShards{All: !none, None: none}, nil
}

func accounts(list []any) ([]primitives.AccountID, bool) {
	out := []primitives.AccountID{}
	for _, x := range list {
		text, _ := x.(string)
		id, err := primitives.ParseAccountID(text)
		if err != nil {
			return nil, false
		}
		out = append(out, id)
	}
	return out, true
}

func schedule(list []any) ([][]primitives.ShardID, bool) {
	out := [][]primitives.ShardID{}
	for _, row := range list {
		ids, ok := row.([]any)
		if !ok {
			return nil, false
		}
		r := []primitives.ShardID{}
		for _, x := range ids {
			n, ok := asU64(x)
			if !ok {
				return nil, false
			}
			r = append(r, primitives.ShardID(n))
		}
		out = append(out, r)
	}
	return out, true
}

func jsonNumber(n uint64) json.Number { return json.Number(strconv.FormatUint(n, 10)) }
