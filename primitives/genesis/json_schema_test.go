package genesis

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-chain/troupe/primitives"
)

// TestJSONSchemaAcceptsWrittenGenesis checks that the schema accepts a genesis as it is written,
// and refuses wrong types and missing fields.
func TestJSONSchemaAcceptsWrittenGenesis(t *testing.T) {
	t.Parallel()
	text, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	read := func(text []byte) any {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", read(text)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	g, err := Localnet(LocalnetOptions{ChainID: "test", Accounts: []primitives.AccountID{"test.near"}, Validators: 1, Shards: 2, Protocol: 88})
	if err != nil {
		t.Fatal(err)
	}
	good := string(AppendConfig(nil, &g.Config))
	good = strings.TrimSuffix(strings.TrimSpace(good), "}") + `,"records":` + string(AppendRecords(nil, g.Records)) + `,"$schema":"genesis.schema.json"}`
	if err := s.Validate(read([]byte(good))); err != nil {
		t.Errorf("a genesis is refused: %v", err)
	}
	for _, c := range []struct{ from, to string }{
		{`"protocol_version":88`, `"protocol_version":"88"`},
		{`"chain_id":"test"`, `"chain":"test"`},
		{`"min_gas_price":"`, `"min_gas_price":"-`},
		{`"epoch_length":`, `"epoch_length":-`},
		{`"records":[`, `"records":[1,`},
	} {
		bad := strings.Replace(strings.ReplaceAll(good, `": `, `":`), c.from, c.to, 1)
		if bad == strings.ReplaceAll(good, `": `, `":`) {
			t.Fatalf("no %s in %.300s", c.from, good)
		}
		if err := s.Validate(read([]byte(bad))); err == nil {
			t.Errorf("a genesis with %s is accepted", c.to)
		}
	}
}
