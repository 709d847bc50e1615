package view

import "github.com/troupe-chain/troupe/primitives"

// AppendAccessKey appends the view of a key with sorted members: {"nonce", "permission"}.
func AppendAccessKey(b []byte, k *primitives.AccessKey) []byte { return sortedOrder.accessKey(b, k) }

// permission appends AccessKeyPermissionView (nearcore views.rs:161): "FullAccess" or one of three
// objects.
func (e *Encoder) permission(b []byte, k *primitives.AccessKey) []byte {
	switch {
	case k.GasKey == nil && k.FunctionCall == nil:
		return append(b, `"FullAccess"`...)
	case k.GasKey == nil:
		b = e.callPermission(append(b, `{"FunctionCall":`...), k.FunctionCall)
	case k.FunctionCall == nil:
		b = e.gasKeyInfo(append(b, `{"GasKeyFullAccess":`...), k.GasKey)
	default:
		b = e.gasKeyCallPermission(append(b, `{"GasKeyFunctionCall":`...), k.GasKey, k.FunctionCall)
	}
	return append(b, '}')
}

// rawPermission appends AccessKeyPermission.
func (e *Encoder) rawPermission(b []byte, k *primitives.AccessKey) []byte {
	if k.GasKey == nil || k.FunctionCall == nil {
		return e.permission(b, k)
	}
	b = e.gasKeyInfo(append(b, `{"GasKeyFunctionCall":[`...), k.GasKey)
	return append(e.callPermission(append(b, ','), k.FunctionCall), "]}"...)
}
