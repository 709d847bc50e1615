package genesis

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// JSONSchema returns the JSON schema (draft 2020-12) of genesis.json, for editors: the fields of
// the config with their types and defaults, and records. It is made from the fields that the reader
// knows. Unknown fields are allowed, as the reader ignores them.
func JSONSchema() ([]byte, error) {
	type object = map[string]any
	amount := object{"type": "string", "pattern": "^[0-9]{1,39}$", "description": "yoctoNEAR"}
	account := object{"type": "string", "minLength": 2, "maxLength": 64}
	ratio := object{"type": "array", "items": object{"type": "integer"}, "minItems": 2, "maxItems": 2}
	unsigned := func(limit uint64) object { return object{"type": "integer", "minimum": 0, "maximum": limit} }
	var zero, initial Config
	for _, f := range configFields {
		if f.def != nil {
			f.def(&initial)
		}
	}
	properties, required := object{}, []string{}
	for _, f := range configFields {
		var s object
		value := any(nil) // default value of the field
		switch v := f.at(&initial).(type) {
		case *primitives.ProtocolVersion:
			s = unsigned(1<<32 - 1)
		case *Time:
			s = object{"type": "string", "format": "date-time"}
		case *string:
			s = object{"type": "string", "minLength": 1}
		case *uint8:
			s, value = object{"type": "integer", "minimum": 0, "maximum": 100, "description": "percent"}, *v
		case *uint64:
			s, value = unsigned(1<<64-1), *v
		case *primitives.Height, *primitives.Gas:
			s = unsigned(1<<64 - 1)
		case *bool:
			s, value = object{"type": "boolean"}, *v
		case *primitives.Balance:
			s = amount
		case *Ratio:
			s, value = ratio, *v
		case *primitives.AccountID:
			s = account
		case *primitives.ShardLayout:
			s = object{"type": "object"}
		case *[]Validator:
			s = object{"type": "array", "items": object{"type": "object", "required": []string{"account_id", "public_key", "amount"},
				"properties": object{"account_id": account, "public_key": object{"type": "string"}, "amount": amount}}}
		default:
			return nil, fmt.Errorf("genesis: schema: no rule for the type %T of %s", f.at(&zero), f.name)
		}
		if f.def == nil {
			required = append(required, f.name)
		} else if value != nil {
			withDefault := object{"default": value}
			for k, x := range s {
				withDefault[k] = x
			}
			s = withDefault
		}
		properties[f.name] = s
	}
	properties["$schema"] = object{"type": "string"}
	properties["records"] = object{"type": "array", "description": "the first state: accounts, keys, contracts, data, receipts",
		"items": object{"type": "object", "minProperties": 1, "maxProperties": 1}}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(object{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "genesis.json of a NEAR chain",
		"type": "object", "properties": properties, "required": required})
	return b.Bytes(), err
}
