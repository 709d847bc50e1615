package rpc

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"
)

// maxMethod is the maximum length in bytes of a method's name in a log line. Without this maximum,
// a client could choose any text as the name of an unknown method.
const maxMethod = 100

var errNoMethod = errors.New("METHOD_NOT_FOUND")

// logsRequests returns whether the log shows debug messages.
func (s *Server) logsRequests() bool {
	switch l := s.log.(type) {
	case *logrus.Logger:
		return l.IsLevelEnabled(logrus.DebugLevel)
	case *logrus.Entry:
		return l.Logger.IsLevelEnabled(logrus.DebugLevel)
	}
	return false
}

// logRequest logs a request that began at start and was answered, at the level debug. err is nil if
// the request succeeded.
func (x *exchange) logRequest(r *request, start time.Time, err error) {
	if !x.logsRequests() {
		return
	}
	x.logAnswered(logrus.Fields{
		"method": clipTo(r.method, maxMethod),
		"params": clipTo(string(cutTo(r.params.raw(), maxParams+1)), maxParams),
		"took":   time.Since(start).Round(time.Microsecond).String(),
	}, err)
}

// logUnread logs a body, or an item of a batch, that is no request and was refused with why, at the level
// debug.
func (x *exchange) logUnread(why string) {
	if x.logsRequests() {
		x.logAnswered(logrus.Fields{}, errors.New(why))
	}
}

func (x *exchange) logAnswered(fields logrus.Fields, err error) {
	if x.conn != nil {
		fields["client"] = x.conn.RemoteAddr().String()
	}
	if err != nil {
		fields["error"] = clipTo(err.Error(), maxText)
	}
	x.log.WithFields(fields).Debug("request")
}
