-- No unique key on purpose: a second effect would show.
create table orders (invoice text not null, customer text not null, amount bigint not null);
create table balances (customer text primary key, paid bigint not null);
