package genesis

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Access keys in the raw form of records and actions. The raw form differs from the RPC's view in
// one case: a gas key with a function call permission is the array [info, permission].

// accessKey reads {"nonce", "permission"}.
func (c *cursor) accessKey() (k primitives.AccessKey) {
	seen := uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "nonce":
			c.field("nonce").once(&seen, 0)
			k.Nonce = primitives.Nonce(c.uint(64))
		case "permission":
			c.field("permission").once(&seen, 1)
			c.permission(&k)
		default:
			return false
		}
		return true
	})
	c.required(seen, "nonce", "permission")
	return k
}

func (c *cursor) permission(k *primitives.AccessKey) {
	c.variant("AccessKeyPermission", func(name string, bare bool) bool {
		switch {
		case name == "FullAccess":
			if !bare && !c.null() {
				return false
			}
		case bare:
			return false
		case name == "FunctionCall":
			k.FunctionCall = c.functionCallPermission()
		case name == "GasKeyFullAccess":
			k.GasKey = c.gasKeyInfo()
		case name == "GasKeyFunctionCall":
			n := 0
			c.array(func() {
				switch n++; n {
				case 1:
					k.GasKey = c.gasKeyInfo()
				case 2:
					k.FunctionCall = c.functionCallPermission()
				default:
					c.skip()
				}
			})
			if n != 2 && c.err == nil {
				c.failf("invalid length %d, expected tuple variant GasKeyFunctionCall with 2 elements", n)
			}
		default:
			return false
		}
		return true
	})
}

func (c *cursor) functionCallPermission() *primitives.FunctionCallPermission {
	p, seen := new(primitives.FunctionCallPermission), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "allowance":
			c.field("allowance").once(&seen, 2)
			if !c.null() {
				v := c.balance()
				p.Allowance = &v
			}
		case "receiver_id":
			c.field("receiver_id").once(&seen, 0)
			p.ReceiverID = string(c.str())
		case "method_names":
			c.field("method_names").once(&seen, 1)
			c.array(func() { p.MethodNames = append(p.MethodNames, string(c.str())) })
		default:
			return false
		}
		return true
	})
	c.required(seen, "receiver_id", "method_names")
	return p
}

func (c *cursor) gasKeyInfo() *primitives.GasKeyInfo {
	g, seen := new(primitives.GasKeyInfo), uint(0)
	c.object(func(key []byte) bool {
		switch string(key) {
		case "balance":
			c.field("balance").once(&seen, 0)
			g.Balance = c.balance()
		case "num_nonces":
			c.field("num_nonces").once(&seen, 1)
			g.NumNonces = uint16(c.uint(16))
		default:
			return false
		}
		return true
	})
	c.required(seen, "balance", "num_nonces")
	return g
}

func appendAccessKey(b []byte, k *primitives.AccessKey) []byte {
	b = strconv.AppendUint(append(b, `{"nonce":`...), uint64(k.Nonce), 10)
	b = append(b, `,"permission":`...)
	switch {
	case k.GasKey == nil && k.FunctionCall == nil:
		b = append(b, `"FullAccess"`...)
	case k.GasKey == nil:
		b = append(appendPermission(append(b, `{"FunctionCall":`...), k.FunctionCall), '}')
	case k.FunctionCall == nil:
		b = append(appendGasKeyInfo(append(b, `{"GasKeyFullAccess":`...), k.GasKey), '}')
	default:
		b = append(appendGasKeyInfo(append(b, `{"GasKeyFunctionCall":[`...), k.GasKey), ',')
		b = append(appendPermission(b, k.FunctionCall), "]}"...)
	}
	return append(b, '}')
}

func appendGasKeyInfo(b []byte, g *primitives.GasKeyInfo) []byte {
	b = appendBalance(append(b, `{"balance":`...), g.Balance)
	return append(strconv.AppendUint(append(b, `,"num_nonces":`...), uint64(g.NumNonces), 10), '}')
}

func appendPermission(b []byte, p *primitives.FunctionCallPermission) []byte {
	b = append(b, `{"allowance":`...)
	if p.Allowance == nil {
		b = append(b, "null"...)
	} else {
		b = appendBalance(b, *p.Allowance)
	}
	b = primitives.AppendJSONString(append(b, `,"receiver_id":`...), p.ReceiverID)
	b = append(b, `,"method_names":[`...)
	for i, name := range p.MethodNames {
		if i > 0 {
			b = append(b, ',')
		}
		b = primitives.AppendJSONString(b, name)
	}
	return append(b, "]}"...)
}
