package fence_test

import (
	"context"
	"database/sql"

	mysqlorm "gorm.io/driver/mysql"
	postgresorm "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// account is a model of an ORM that knows nothing of tokens.
type account struct {
	ID      int
	Balance int64
}

func openORM(d database, source string) (*gorm.DB, *sql.DB, error) {
	db, err := sql.Open(d.driver, source)
	if err != nil {
		return nil, nil, err
	}
	dialector := postgresorm.New(postgresorm.Config{Conn: db})
	if d.driver == "mysql" {
		dialector = mysqlorm.New(mysqlorm.Config{Conn: db})
	}
	orm, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	return orm, db, err
}

// ormRegister is the balance of an account in a table. Without a dialect it has no token.
type ormRegister struct {
	orm     *gorm.DB
	db      *sql.DB
	dialect sqlfence.Dialect
	table   string
}

func (r ormRegister) do(ctx context.Context, token uint64, f func(*gorm.DB) error) error {
	if r.dialect == 0 {
		return r.orm.WithContext(ctx).Table(r.table).Transaction(f)
	}
	return r.dialect.Do(ctx, r.db, token, func(tx *sql.Tx) error {
		orm := r.orm.WithContext(ctx)
		orm.Statement.ConnPool = tx
		return f(orm.Table(r.table))
	})
}

func (r ormRegister) read(ctx context.Context, token uint64) (int64, error) {
	var a account
	err := r.do(ctx, token, func(orm *gorm.DB) error { return orm.Take(&a, 1).Error })
	return a.Balance, err
}

func (r ormRegister) write(ctx context.Context, token uint64, n int64, before func()) error {
	return r.do(ctx, token, func(orm *gorm.DB) error {
		err := orm.Save(&account{ID: 1, Balance: n}).Error
		before()
		return err
	})
}
