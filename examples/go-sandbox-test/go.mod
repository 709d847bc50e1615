module example.com/go-sandbox-test

go 1.26.0
