package rpc

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// certificate is a certificate with its key. The certificate and the key are read from files, and
// read again when the files change.
type certificate struct {
	cert, key string
	log       logrus.FieldLogger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamps [2]time.Time // modification times of the two files at the last attempt to read the files
	looked time.Time
}

// certCheckInterval is the time between checks of the files, so that not every handshake accesses
// the disk.
const certCheckInterval = time.Second

// newCertificate reads the certificate and the key from their files.
func newCertificate(cert, key string, log logrus.FieldLogger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("troupe.rpc.tls_cert, troupe.rpc.tls_key: %w", err)
	}
	c.pair, c.stamps, c.looked = &pair, c.changed(), time.Now()
	return c, nil
}

func (c *certificate) changed() (out [2]time.Time) {
	for i, path := range []string{c.cert, c.key} {
		if st, err := os.Stat(path); err == nil {
			out[i] = st.ModTime()
		}
	}
	return out
}

// get returns the current certificate. While the two files do not match, for example during a
// replacement, get returns the previous certificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certCheckInterval {
		return c.pair, nil
	}
	c.looked = time.Now()
	stamps := c.changed()
	if stamps == c.stamps {
		return c.pair, nil
	}
	c.stamps = stamps
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.WithError(err).Warn("the certificate has changed and cannot be read; the one before stays")
		return c.pair, nil
	}
	c.pair = &pair
	c.log.Info("the certificate has been read again")
	return c.pair, nil
}

// secured wraps a connection in TLS if the server has a certificate. The first read makes the
// handshake, within read_timeout.
func (d *connLimiter) secured(c net.Conn) net.Conn {
	if d.tls == nil {
		return c
	}
	return tls.Server(c, d.tls)
}
