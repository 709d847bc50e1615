package genesis

import (
	"errors"
	"fmt"
	"strconv"
)

// Time is nanoseconds since 1970 in UTC, as in blocks. It ends in 2554.
type Time uint64

const (
	nanosPerSecond = 1_000_000_000
	secondsPerDay  = 86_400
	daysPer400Year = 146_097
	daysTo1970     = 719_468 // days from 0000-03-01 to 1970-01-01; years that begin in March end with the leap day
)

// errTime is wrapped by the errors of ParseTime.
var errTime = errors.New("invalid RFC 3339 time")

// ParseTime reads RFC 3339 with any offset; digits below a nanosecond are dropped. Times before
// 1970 or after 2554 and leap seconds are refused.
func ParseTime(text string) (Time, error) {
	p := timeParser{s: text}
	year, month, day := p.digits(4, '-'), p.digits(2, '-'), p.digits(2, 0)
	p.oneOf("Tt ")
	hour, minute, second := p.digits(2, ':'), p.digits(2, ':'), p.digits(2, 0)
	nanos := p.fraction()
	offset := p.offset()
	if p.bad || p.s != "" || month < 1 || month > 12 || day < 1 || day > monthDays(year, month) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, fmt.Errorf("%w: %.40q", errTime, text)
	}
	seconds := int64(daysSince1970(year, month, day))*secondsPerDay + int64(hour*3600+minute*60+second) - int64(offset)
	if seconds < 0 || seconds > int64(^uint64(0)/nanosPerSecond)-1 {
		return 0, fmt.Errorf("%w: %.40q is out of range", errTime, text)
	}
	return Time(uint64(seconds)*nanosPerSecond + uint64(nanos)), nil
}

// timeParser consumes pieces of s from the front.
type timeParser struct {
	s   string
	bad bool
}

// digits consumes n digits and then the byte `after`; 0: only the digits.
func (p *timeParser) digits(n int, after byte) (v int) {
	for range n {
		if p.s == "" || p.s[0] < '0' || p.s[0] > '9' {
			p.bad = true
			return 0
		}
		v = v*10 + int(p.s[0]-'0')
		p.s = p.s[1:]
	}
	if after != 0 {
		p.oneOf(string(after))
	}
	return v
}

// oneOf consumes one byte of set.
func (p *timeParser) oneOf(set string) byte {
	if p.s != "" {
		for i := range len(set) {
			if set[i] == p.s[0] {
				p.s = p.s[1:]
				return set[i]
			}
		}
	}
	p.bad = true
	return 0
}

// fraction consumes .digits and returns nanoseconds; 0 if there is none.
func (p *timeParser) fraction() (nanos int) {
	if p.s == "" || p.s[0] != '.' {
		return 0
	}
	p.s = p.s[1:]
	n := 0
	for ; p.s != "" && p.s[0] >= '0' && p.s[0] <= '9'; n++ {
		if n < 9 {
			nanos = nanos*10 + int(p.s[0]-'0')
		}
		p.s = p.s[1:]
	}
	p.bad = p.bad || n == 0
	for ; n < 9; n++ {
		nanos *= 10
	}
	return nanos
}

// offset consumes Z or +hh:mm or -hh:mm and returns seconds east of UTC.
func (p *timeParser) offset() int {
	sign := p.oneOf("Zz+-")
	if p.bad || sign == 'Z' || sign == 'z' {
		return 0
	}
	h, m := p.digits(2, ':'), p.digits(2, 0)
	p.bad = p.bad || h > 23 || m > 59
	if sign == '-' {
		return -(h*3600 + m*60)
	}
	return h*3600 + m*60
}

func monthDays(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts from years that begin in March, so that the leap day is the last.
func daysSince1970(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	yearDay := (153*(month-3)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + yearDay - daysTo1970
}

// date is the inverse of daysSince1970.
func date(days int) (year, month, day int) {
	days += daysTo1970
	era, d := days/daysPer400Year, days%daysPer400Year
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	year, month, day = era*400+y, m+3, d-(153*m+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// String returns RFC 3339 in UTC as nearcore prints it: no fraction, or 3, 6 or 9 digits.
func (t Time) String() string {
	seconds, nanos := uint64(t)/nanosPerSecond, uint64(t)%nanosPerSecond
	year, month, day := date(int(seconds / secondsPerDay))
	s := seconds % secondsPerDay
	text := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", year, month, day, s/3600, s/60%60, s%60)
	switch {
	case nanos == 0:
	case nanos%1_000_000 == 0:
		text += "." + pad(nanos/1_000_000, 3)
	case nanos%1000 == 0:
		text += "." + pad(nanos/1000, 6)
	default:
		text += "." + pad(nanos, 9)
	}
	return text + "Z"
}

func pad(v uint64, width int) string {
	s := strconv.FormatUint(v, 10)
	for len(s) < width {
		s = "0" + s
	}
	return s
}
