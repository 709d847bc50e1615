package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxMockVerification is the method sandbox_mock_verification, which nearcore does not have.
var sandboxMockVerification = Method[primitives.Mocks]{
	Name: "sandbox_mock_verification",
	Doc: `Sets which host functions accept every well-formed signature: ed25519_verify and p256_verify are switched on by
true, ecrecover by the secp256k1 key that it is to return. A parameter that is missing, false or null restores
normal verification. The setting applies to later blocks, queries and simulations until the node stops. The
method status returns it.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p primitives.Mocks, err error) {
		if v.isNull() || v.kind() == kArray && v.len() == 0 {
			return p, nil
		}
		return p, readStruct(v, "RpcSandboxMockVerificationRequest", field{"ed25519_verify", true, into(&p.Ed25519, readBool)},
			field{"p256_verify", true, into(&p.P256, readBool)}, field{"ecrecover", true, into(&p.ECRecover, readRecovered)})
	},
	Handle: func(c *call, b []byte, p *primitives.Mocks) ([]byte, error) {
		m := p
		if !m.Any() {
			m = nil
		}
		if err := c.node.MockVerification(c.ctx, m); err != nil {
			return b, sandboxFailure(err, SandboxRefused, "verification was not set in time; it still may be")
		}
		b = strconv.AppendBool(append(b, `{"ed25519_verify":`...), p.Ed25519)
		b = append(b, `,"ecrecover":`...)
		if p.ECRecover == "" {
			b = append(b, "null"...)
		} else {
			b = view.AppendString(b, p.ECRecover.String())
		}
		return append(strconv.AppendBool(append(b, `,"p256_verify":`...), p.P256), '}'), nil
	},
}

func readRecovered(v val) (primitives.PublicKey, error) {
	if v.isNull() {
		return "", nil
	}
	key, err := readKey(v)
	if err == nil && key.Type() != primitives.SECP256K1 {
		err = errors.New("invalid value: the key must be of type secp256k1")
	}
	return key, err
}
