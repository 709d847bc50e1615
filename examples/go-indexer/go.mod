module example.com/go-indexer

go 1.26.0
