package genesis

import (
	"fmt"
	"io"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// manyAccounts is a genesis with n accounts, each with a key, generated while it is read.
type manyAccounts struct {
	n, i int
	buf  []byte
}

func (m *manyAccounts) Read(p []byte) (int, error) {
	for len(m.buf) < len(p) && m.i <= m.n {
		switch m.i {
		case 0:
			m.buf = append(m.buf, `{"records":[`...)
		default:
			if m.i > 1 {
				m.buf = append(m.buf, ',')
			}
			id := primitives.AccountID(fmt.Sprintf("account%d.near", m.i))
			m.buf = AppendRecord(m.buf, &AccountRecord{id, primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(1000)}})
			m.buf = append(m.buf, ",\n    "...)
			m.buf = AppendRecord(m.buf, &AccessKeyRecord{AccountID: id, PublicKey: edKey.Handle()})
		}
		if m.i == m.n {
			m.buf = append(m.buf, "]}"...)
		}
		m.i++
	}
	if len(m.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.buf)
	m.buf = m.buf[:copy(m.buf, m.buf[n:])]
	return n, nil
}

// About half of the measured time generates the text.
func BenchmarkReadRecords(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("accounts=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				count := 0
				err := ReadRecords(&manyAccounts{n: n}, func(Record) error {
					count++
					return nil
				})
				if err != nil || count != 2*n {
					b.Fatal(count, err)
				}
			}
		})
	}
}
