package genesis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	return testutil.Read(t, filepath.Join("testdata", name))
}

func parse(t testing.TB, in []byte) *Genesis {
	t.Helper()
	g, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func write(t testing.TB, g *Genesis) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, &g.Config, slices.Values(g.Records)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func diff(got, want []byte) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	near := func(b []byte) string { return string(b[max(0, i-60):min(len(b), i+60)]) }
	return fmt.Sprintf("at byte %d:\ngot  %q\nwant %q", i, near(got), near(want))
}

// TestNeardFilesAreReproduced: files that neard wrote are written again byte for byte.
func TestNeardFilesAreReproduced(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"init-plain.json", "init-fast.json", "localnet.json", "dump-state.json.gz"} {
		want := read(t, name)
		g := parse(t, want)
		if got := write(t, g); !bytes.Equal(got, want) {
			t.Errorf("%s: %s", name, diff(got, want))
		}
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustInit(t *testing.T, o InitOptions) *Genesis {
	t.Helper()
	g, err := Init(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestInitEqualsNeardsFile(t *testing.T) {
	t.Parallel()
	for name, fast := range map[string]bool{"init-plain.json": false, "init-fast.json": true} {
		t.Run(name, func(t *testing.T) {
			want := read(t, name)
			c := parse(t, want).Config
			g := mustInit(t, InitOptions{ChainID: c.ChainID, Time: c.GenesisTime, Validator: "test.near", Key: c.Validators[0].PublicKey, Shards: 1, Fast: fast,
				Protocol: c.ProtocolVersion})
			if got := write(t, g); !bytes.Equal(got, want) {
				t.Errorf("got %s", diff(got, want))
			}
		})
	}
	g := mustInit(t, InitOptions{Shards: 4, Protocol: 85, Validator: "node0", Key: primitives.SecretKeyFromSeed(primitives.ED25519, "node0").PublicKey()})
	if got, want := fmt.Sprint(g.Config.ShardLayout.ShardIDs()), "[3 1 0 2]"; got != want {
		t.Errorf("shards = %s, want %s", got, want)
	}
	if err := g.Validate(); err != nil || g.Config.ProtocolVersion != 85 {
		t.Errorf("version %d, %v, want 85 and no error", g.Config.ProtocolVersion, err)
	}
}

func TestLocalnetEqualsNeardsFile(t *testing.T) {
	t.Parallel()
	want := read(t, "localnet.json")
	c := parse(t, want).Config
	g, err := Localnet(LocalnetOptions{ChainID: c.ChainID, Time: c.GenesisTime, Accounts: []primitives.AccountID{"node0", "node1"}, Validators: 2, Shards: 3,
		Protocol: c.ProtocolVersion})
	if err != nil {
		t.Fatal(err)
	}
	if got := write(t, g); !bytes.Equal(got, want) {
		t.Errorf("%s", diff(got, want))
	}
}

func TestConfigViewEqualsNeards(t *testing.T) {
	t.Parallel()
	want := read(t, "genesis_config.json")
	c, _, err := ReadConfig(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendView(nil, c); !bytes.Equal(got, want) {
		t.Errorf("%s", diff(got, want))
	}
}

func TestWrittenConfigCanBeRead(t *testing.T) {
	t.Parallel()
	g := parse(t, read(t, "init-plain.json"))
	var out bytes.Buffer
	if err := WriteConfig(&out, &g.Config); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadConfig(&out); err != nil {
		t.Errorf("%v", err)
	}
	g.Records = nil
	if got := write(t, g); !bytes.HasSuffix(got, []byte("\"records\": []\n}")) {
		t.Errorf("no records: %q", got[len(got)-40:])
	}
}

// TestMainnetGenesisOf2020IsRead: the file has obsolete fields, lacks newer ones, and has records
// before some fields.
func TestMainnetGenesisOf2020IsRead(t *testing.T) {
	t.Parallel()
	g := parse(t, testutil.Read(t, "mainnet.json.gz"))
	c := &g.Config
	if got, want := c.GenesisTime.String(), "2020-07-21T16:55:51.591948Z"; got != want {
		t.Errorf("time = %s, want %s", got, want)
	}
	if got, want := c.GenesisHeight, primitives.Height(9_820_210); got != want {
		t.Errorf("height = %d, want %d", got, want)
	}
	if got, want := c.MaxGasPrice.String(), "10000000000000000000000"; got != want {
		t.Errorf("max gas price = %s, want %s", got, want)
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	text := write(t, g)
	again := parse(t, text)
	if got := write(t, again); !bytes.Equal(got, text) || !reflect.DeepEqual(again.Records, g.Records) {
		t.Errorf("mainnet's genesis differs after writing and reading")
	}
}

const minimal = `{ // one line
	"protocol_version": 86, "genesis_time": "2020-01-01T00:00:00+01:00", "chain_id": "a\u0062", "genesis_height": 1,
	# shell style
	"num_block_producer_seats": 2, "dynamic_resharding": false, "epoch_length": 10, "gas_limit": 5, /* two
	lines */ "min_gas_price": "7", "max_gas_price": 8, "block_producer_kickout_threshold": 1,
	"chunk_producer_kickout_threshold": 2, "gas_price_adjustment_rate": [2, 200], "validators": [],
	"records": null, "unknown": {"a": [1, {"b": "}"}], "c": "\"]"}, "transaction_validity_period": 9,
	"protocol_reward_rate": [0, 1], "max_inflation_rate": [0, 5], "total_supply": "0", "num_blocks_per_year": 3,
	"protocol_treasury_account": "near", "fishermen_threshold": "4", "records_file": "r.json" }`

func TestAbsentConfigFieldsHaveDefaults(t *testing.T) {
	t.Parallel()
	c, recordsFile, err := ReadConfig(strings.NewReader(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if recordsFile != "r.json" {
		t.Errorf("records file = %q, want r.json", recordsFile)
	}
	want := Config{
		ProtocolVersion: 86, GenesisTime: 1_577_833_200_000_000_000, ChainID: "ab", GenesisHeight: 1, NumBlockProducerSeats: 2,
		ProtocolUpgradeStakeThreshold: Ratio{4, 5}, EpochLength: 10, GasLimit: 5, MinGasPrice: primitives.Yocto(7),
		MaxGasPrice: primitives.Yocto(8), BlockProducerKickoutThreshold: 1, ChunkProducerKickoutThreshold: 2,
		ChunkValidatorOnlyKickoutThreshold: 80, TargetValidatorMandatesPerShard: 68, OnlineMinThreshold: Ratio{9, 10},
		OnlineMaxThreshold: Ratio{99, 100}, GasPriceAdjustmentRate: Ratio{1, 100}, Validators: []Validator{},
		TransactionValidityPeriod: 9, ProtocolRewardRate: Ratio{0, 1}, MaxInflationRate: Ratio{0, 1}, NumBlocksPerYear: 3,
		ProtocolTreasuryAccount: "near", FishermenThreshold: primitives.Yocto(4), MinimumStakeDivisor: 10,
		ShardLayout: primitives.SingleShardLayout(), MinimumValidatorsPerShard: 1, MaxKickoutStakePerc: 100,
		MinimumStakeRatio: Ratio{1, 6250}, NumChunkProducerSeats: 100, NumChunkValidatorSeats: 300, ChunkProducerAssignmentLimit: 5,
	}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got %+v, want %+v", *c, want)
	}
	if err := ReadRecords(strings.NewReader(minimal), func(Record) error { return errors.New("a record") }); err != nil {
		t.Errorf("null records: %v", err)
	}
	if _, err := Parse([]byte(minimal)); err == nil {
		t.Errorf("Parse took a genesis with a records file")
	}
}

func TestErrorsNameLineAndColumn(t *testing.T) {
	t.Parallel()
	good := string(read(t, "init-plain.json"))
	for _, c := range []struct{ old, new, want string }{
		{`"epoch_length": 500`, `"epoch_length": -5`, "line 12 column 19: epoch_length: invalid value: integer `-5`, expected u64"},
		{`"epoch_length": 500`, `"epoch_length": "5"`, "line 12 column 19: epoch_length: invalid type: string \"5\", expected u64"},
		{`"epoch_length": 500`, `"epoch_length": 500, "epoch_length": 500`, "line 12 column 39: duplicate field `epoch_length`"},
		{`"epoch_length": 500,`, ``, "line 127 column 2: missing field `epoch_length`"},
		{`"epoch_length": 500,
  "gas_limit": 1000000000000000,`, ``, "line 126 column 2: 2 missing fields: `epoch_length`, `gas_limit`"},
		{good, `{}`, "line 1 column 3: 21 missing fields: `protocol_version`, `genesis_time`, `chain_id`, `genesis_height`, "},
		{`"gas_limit": 1000000000000000`, `"gas_limit": 1e15`, "line 13 column 16: gas_limit: invalid value: integer `1e15`, expected u64"},
		{`"min_gas_price": "100000000"`, `"min_gas_price": "1x"`, "line 14 column 20: min_gas_price: invalid digit found in string"},
		{`"dynamic_resharding": false`, `"dynamic_resharding": 0`, "line 7 column 25: dynamic_resharding: invalid type: integer `0`, expected a boolean"},
		{`"amount": "50000000000000000000000000000000"`, `"amount": -1`, "line 32 column 17: validators[0].amount: invalid type: integer `-1`, expected a string of digits"},
		{`"account_id": "test.near",
      "public_key"`, `"account_id": "Test.near",
      "public_key"`, "line 32 column 17: validators[0].account_id: the Account ID contains an invalid character 'T' at index 0"},
		{`"protocol_treasury_account": "test.near"`, `"protocol_treasury_account": "x"`, "line 50 column 32: protocol_treasury_account: the Account ID is too short"},
		{`2026-11-21T04`, `2026-11-31T04`, "line 3 column 19: genesis_time: invalid RFC 3339 time: \"2026-11-31T04:02:03.536356613Z\""},
		{`"protocol_version": 86`, `"protocol_version": 86 86`, "line 2 column 26: invalid JSON: '8' where '}' should be"},
		{`"locked": "0"`, `"locked": true`, "line 104 column 5: records[2].Account.account.locked: invalid type: boolean `true`, expected a string of digits"},
		{`"storage_usage": 0,
          "version": "V1"
        }
      }
    },
    {
      "AccessKey": {
        "account_id": "near"`, `"storage_usage": 0,
          "version": "V3"
        }
      }
    },
    {
      "AccessKey": {
        "account_id": "near"`, "line 104 column 5: records[2].Account.account.version: unknown variant `V3`, expected `V1` or `V2`"},
		{`"permission": "FullAccess"`, `"permission": "Full"`, "line 94 column 5: records[1].AccessKey.access_key.permission: unknown variant `Full` of AccessKeyPermission"},
		{`"AccessKey"`, `"AccessKeys"`, "line 94 column 5: records[1].AccessKeys: " + fmt.Sprintf(UnknownRecordText, "AccessKeys")},
		{`"public_key": "ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c"`, `"public_key": "ed25519:0"`,
			"line 116 column 5: records[3].AccessKey.public_key: "},
		{`"version": "V1"`, `"version": "V1`, ""},
		{"\n}", "\n} x", "line 127 column 3: invalid JSON: 'x' after the end"},
	} {
		in := strings.Replace(good, c.old, c.new, 1)
		if c.old == "\n}" {
			in = good + " x"
		}
		if in == good {
			t.Errorf("%q is not in the file", c.old)
		}
		_, err := Parse([]byte(in))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", c.new, err, c.want)
		}
		if place := new(Error); !errors.As(err, &place) {
			t.Errorf("%q: %v is no *Error", c.new, err)
		}
	}
}

func TestRecordsAreReadFromArrayOrGenesis(t *testing.T) {
	t.Parallel()
	array := `[{"Account":{"account_id":"a.near","account":{"amount":5,"locked":"6","code_hash":"11111111111111111111111111111111","storage_usage":7}}}]`
	for _, in := range []string{array, `{"records":` + array + `}`, `{"x":[1,2],"records":` + array + `,"y":{"records":3}}`} {
		var got []Record
		err := ReadRecords(strings.NewReader(in), func(r Record) error {
			got = append(got, r)
			return nil
		})
		want := []Record{&AccountRecord{AccountID: "a.near", Account: primitives.Account{
			Version: primitives.AccountV1, Amount: primitives.Yocto(5), Locked: primitives.Yocto(6), StorageUsage: 7}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", in, got, err, want)
		}
	}
	stop := errors.New("stop")
	if err := ReadRecords(strings.NewReader(array), func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the callback's error", err)
	}
	deep := strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2)
	for _, in := range []string{``, `{`, `{"`, `{}`, `[`, `[{}]`, `[{"Account":{}},]`, `[,]`, `5`, `{"records":[],"records":[]}`, `{"records":{}}`,
		`[{"Account":1}]`, `{"a":` + deep + `,"records":[]}`, `[{"Account":` + deep + `}]`, "[{\"Data\x00\":1}]", `[] []`, `[{"a":tru}]`,
		`[{"a":01}]`, `[{"a":"\q"}]`, "[{\"a\":\"\xff\"}]", `{"a":]}`, `[/]`, `[/* ]`, `{"records":[]`, `[{"Account":{"account_id":"a.near"`} {
		if err := ReadRecords(strings.NewReader(in), func(Record) error { return nil }); err == nil {
			t.Errorf("%.60q: no error", in)
		}
	}
}

// TestScannerAcceptsOneByteReads: the input has comments everywhere.
func TestScannerAcceptsOneByteReads(t *testing.T) {
	t.Parallel()
	in := "/**/[ // a\n{ # b\n\"Contract\" /*c*/ : {\"account_id\":\"a\\u002enear\", \"code\":\"\"\n}}]#end"
	var got []Record
	if err := ReadRecords(iotestOneByte{strings.NewReader(in)}, func(r Record) error {
		got = append(got, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []Record{&ContractRecord{AccountID: "a.near", Code: []byte{}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestTimeIsReadAsNeardReadsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"2020-02-29T23:59:59.999999999Z", "2020-02-29T23:59:59.999999999Z"},
		{"2000-03-01t00:00:00.120z", "2000-03-01T00:00:00.120Z"},
		{"2020-07-21T16:55:51.591948000Z", "2020-07-21T16:55:51.591948Z"},
		{"2020-07-21 16:55:51.5-02:30", "2020-07-21T19:25:51.500Z"},
		{"2554-07-21T23:34:32Z", "2554-07-21T23:34:32Z"},
		{"2020-01-01T00:00:00.0000000019Z", "2020-01-01T00:00:00.000000001Z"},
	} {
		got, err := ParseTime(c.in)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.in, got, err, c.want)
		}
	}
	if got, _ := ParseTime("2020-07-21T16:55:51.591948000Z"); got != 1_595_350_551_591_948_000 {
		t.Errorf("got %d, want 1595350551591948000", got)
	}
	for _, in := range []string{"", "2020-01-01", "2021-02-29T00:00:00Z", "2020-13-01T00:00:00Z", "2020-01-00T00:00:00Z", "2020-01-01T24:00:00Z",
		"2020-01-01T00:00:60Z", "2020-01-01T00:00:00", "2020-01-01T00:00:00.Z", "1969-12-31T23:59:59Z", "2600-01-01T00:00:00Z",
		"2020-01-01T00:00:00+24:00", "2020-01-01T00:00:00Zx", "20-01-01T00:00:00Z"} {
		if got, err := ParseTime(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
	for day := range 80_000 { // until 2189, each day the one after the last
		y, m, d := date(day)
		if got := daysSince1970(y, m, d); got != day || d > monthDays(y, m) || m < 1 || m > 12 {
			t.Fatalf("day %d is %d-%d-%d, which is day %d", day, y, m, d, got)
		}
	}
}
