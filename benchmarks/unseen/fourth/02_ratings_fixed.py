# Predict star ratings from (customer, article) pairs, classic two-embedding recommender.
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(11)
keras.utils.set_random_seed(11)

# --- fake export of the shop database -------------------------------------
n_customers, n_articles, n_ratings = 6000, 2500, 45000
customer_numbers = rng.choice(np.arange(100_000, 900_000), n_customers, replace=False)
article_numbers = rng.choice(np.arange(10_000, 400_000), n_articles, replace=False)
taste = rng.normal(size=(n_customers, 4))
style = rng.normal(size=(n_articles, 4))

ci = rng.integers(0, n_customers, n_ratings)
ai = rng.integers(0, n_articles, n_ratings)
stars = np.clip(3.2 + 0.5 * (taste[ci] * style[ai]).sum(1) + rng.normal(scale=0.4, size=n_ratings), 1, 5)
ratings = {
    "customer": customer_numbers[ci].astype("int32"),
    "article": article_numbers[ai].astype("int32"),
    "stars": stars.astype("float32"),
}
# ---------------------------------------------------------------------------

customer_ids, customer = np.unique(ratings["customer"], return_inverse=True)
article_ids, article = np.unique(ratings["article"], return_inverse=True)
customer, article = customer.astype("int32"), article.astype("int32")
target = ratings["stars"]

n_customer_ids = len(customer_ids)
n_article_ids = len(article_ids)

split = int(0.9 * len(target))
EMB = 16

c_in = keras.Input((), dtype="int32", name="customer")
a_in = keras.Input((), dtype="int32", name="article")
c = layers.Embedding(n_customer_ids, EMB)(c_in)
a = layers.Embedding(n_article_ids, EMB)(a_in)
dot = layers.Dot(axes=1)([c, a])
h = layers.Concatenate()([c, a, dot])
h = layers.Dense(64, activation="relu")(h)
h = layers.Dense(32, activation="relu")(h)
out = layers.Dense(1)(h)
model = keras.Model([c_in, a_in], out)

model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(
    [customer[:split], article[:split]],
    target[:split],
    validation_data=([customer[split:], article[split:]], target[split:]),
    batch_size=512,
    epochs=3,
    verbose=2,
)

# show a few recommendations for one customer
one = np.full(len(article_ids), customer[0], dtype="int32")
scores = model.predict([one, np.arange(len(article_ids), dtype="int32")], batch_size=1024, verbose=0)[:, 0]
print("top articles for", customer_ids[customer[0]], ":", article_ids[np.argsort(-scores)[:5]])
