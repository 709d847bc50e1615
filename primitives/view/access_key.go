package view

import "github.com/troupe-chain/troupe/primitives"

// AppendAccessKey appends the view of a key: {"nonce", "permission"}.
func AppendAccessKey(b []byte, k *primitives.AccessKey) []byte {
	b = appendUint(append(b, `{"nonce":`...), k.Nonce)
	return append(AppendPermission(append(b, `,"permission":`...), k), '}')
}

// AppendPermission appends AccessKeyPermissionView (nearcore views.rs:161): "FullAccess" or one of
// three objects.
func AppendPermission(b []byte, k *primitives.AccessKey) []byte {
	switch p := k.FunctionCall; {
	case k.GasKey == nil && p == nil:
		return append(b, `"FullAccess"`...)
	case k.GasKey == nil:
		return append(appendCallPermission(append(b, `{"FunctionCall":`...), p), '}')
	case p == nil:
		return append(appendGasKeyInfo(append(b, `{"GasKeyFullAccess":`...), k.GasKey), '}')
	default:
		b = appendAllowance(append(b, `{"GasKeyFunctionCall":{"allowance":`...), p)
		b = AppendBalance(append(b, `,"balance":`...), k.GasKey.Balance)
		b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
		b = appendUint(append(b, `,"num_nonces":`...), k.GasKey.NumNonces)
		return append(AppendString(append(b, `,"receiver_id":`...), p.ReceiverID), "}}"...)
	}
}

// AppendRawAccessKey appends a key as in genesis records and inner actions of delegates: like the
// view, but a gas key limited to calls is a pair.
func AppendRawAccessKey(b []byte, k *primitives.AccessKey) []byte {
	if k.GasKey == nil || k.FunctionCall == nil {
		return AppendAccessKey(b, k)
	}
	b = appendUint(append(b, `{"nonce":`...), k.Nonce)
	b = appendGasKeyInfo(append(b, `,"permission":{"GasKeyFunctionCall":[`...), k.GasKey)
	return append(appendCallPermission(append(b, ','), k.FunctionCall), "]}}"...)
}

func appendGasKeyInfo(b []byte, g *primitives.GasKeyInfo) []byte {
	b = AppendBalance(append(b, `{"balance":`...), g.Balance)
	return append(appendUint(append(b, `,"num_nonces":`...), g.NumNonces), '}')
}

func appendAllowance(b []byte, p *primitives.FunctionCallPermission) []byte {
	if p.Allowance == nil {
		return append(b, "null"...)
	}
	return AppendBalance(b, *p.Allowance)
}

func appendCallPermission(b []byte, p *primitives.FunctionCallPermission) []byte {
	b = appendAllowance(append(b, `{"allowance":`...), p)
	b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
	return append(AppendString(append(b, `,"receiver_id":`...), p.ReceiverID), '}')
}
